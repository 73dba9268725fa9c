import '../../browser/style.css';

import { Fanfare, type Schemas } from 'fanfare-client';
import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { Bell } from './bell';
import { useHome } from './useHome';

function App() {
  const [fanfare, setFanfare] = useState<Fanfare>();
  const { state, error, items, unread, like } = useHome(fanfare);
  const connect = (form: FormData) => setFanfare(new Fanfare({ baseUrl: String(form.get('api')), token: String(form.get('token')).trim() }));
  return <>
    <header>
      <h1>A live home</h1>
      <output id="state">{state}</output>
      {fanfare && unread !== undefined && <Bell fanfare={fanfare} unread={unread} />}
    </header>
    <main>
      <details id="connection" open={!fanfare}>
        <summary>Connection</summary>
        <form id="connect" onSubmit={event => { event.preventDefault(); connect(new FormData(event.currentTarget)); }}>
          <label>API <input name="api" type="url" defaultValue="http://localhost:8080" required /></label>
          <label>Token <input name="token" type="password" required autoComplete="off" spellCheck={false} /></label>
          <button>Connect</button>
        </form>
      </details>
      <p id="problem" role="alert">{error instanceof Error && error.message}</p>
      <section id="feed" aria-label="Home"><ol id="home" reversed>
        {fanfare && items.map(item => <li key={item.post.id} id={item.post.id}>
          {item.author.image_url && <Picture className="avatar" url={item.author.image_url} width={32} height={32} />}
          <strong>{item.author.name || item.author.id}</strong>
          <p>{item.post.text}</p>
          {item.post.images?.map((image, i) => <Picture key={i} className="picture" {...image} />)}
          <button type="button" className="like" aria-pressed={item.liked} onClick={() => like(fanfare, item)}>
            {item.like_count === 1 ? '1 like' : `${item.like_count} likes`}
          </button>
        </li>)}
      </ol></section>
    </main>
  </>;
}

// Picture shows an image. The size keeps its place until the image is loaded. An image that cannot be loaded is its alt text.
function Picture({ className, url, alt = '', width, height }: Schemas['Image'] & { className: string }) {
  return <img className={className} loading="lazy" src={url} alt={alt} width={width} height={height} onError={event => { event.currentTarget.hidden = !alt; }} />;
}

createRoot(document.getElementById('root')!).render(<StrictMode><App /></StrictMode>);
