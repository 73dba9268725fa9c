import type { Fanfare, Schemas } from 'fanfare-client';
import { useEffect, useState } from 'react';

type Notice = Schemas['Notification'];

// Bell shows the number of unread notifications from the stream. While its list is open, Bell reads the
// newest 20 notifications with each new number. It marks the notifications as read when the top of the
// list is visible.
export function Bell({ fanfare, unread }: { fanfare: Fanfare; unread: number }) {
  const [open, setOpen] = useState(false);
  const [seesTop, setSeesTop] = useState(true);
  const [items, setItems] = useState<Notice[]>();
  const [problem, setProblem] = useState('');

  useEffect(() => {
    if (!open) return;
    const ended = new AbortController(), { signal } = ended;
    const read = async () => {
      const page = await fanfare.get('/v1/me/notifications', { query: { limit: 20, expand: 'view' }, signal });
      // A new notification stays marked as new while the list is open.
      setItems(old => page.items.map(item => ({ ...item, unread: item.unread || !!old?.some(({ id, at, unread }) => unread && id === item.id && at === item.at) })));
      setProblem('');
      if (page.unread && seesTop && !document.hidden) await fanfare.put('/v1/me/notifications/read', { body: { read_to: page.read_to }, signal });
    };
    const look = () => { read().catch(error => { if (!signal.aborted) setProblem(String(error)); }); };
    look();
    document.addEventListener('visibilitychange', look, { signal });
    return () => ended.abort();
  }, [fanfare, open, unread, seesTop]);

  const number = unread < 10 ? String(unread) : '10+';
  return <>
    <button type="button" id="bell" popoverTarget="notices" aria-label={unread ? `Notifications, ${number} unread` : 'Notifications'}>
      <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M18 8.5a6 6 0 1 0-12 0c0 6-2.5 7.5-2.5 7.5h17S18 14.5 18 8.5M13.7 20a2 2 0 0 1-3.4 0" /></svg>
      {unread > 0 && <span id="badge">{number}</span>}
    </button>
    <section id="notices" popover="auto" aria-label="Notifications" onToggle={({ newState }) => { setOpen(newState === 'open'); setItems(undefined); }}>
      <div id="scroller" tabIndex={0} role="region" aria-label="The newest" onScroll={event => setSeesTop(event.currentTarget.scrollTop < 20)}>
        <p role="alert">{problem}</p>
        <ol id="list">{items?.map(item => <Row key={item.id} {...item} />)}</ol>
        {items?.length === 0 && <p className="empty">Nobody did anything with your posts yet.</p>}
      </div>
    </section>
  </>;
}

function Row({ kind, actors, count = 0, post, unread, at }: Notice) {
  const names = actors.map(({ user, user_id }) => user?.name || user_id), others = kind === 'like' ? count - names.length : 0;
  const who = new Intl.ListFormat('en').format(others > 0 ? [...names, `${others} more`] : names);
  const did = { like: `${actors.some(({ reaction = 'like' }) => reaction !== 'like') ? 'reacted to' : 'liked'} your post`, comment: 'commented on your post', follow: 'followed you', mention: 'mentioned you', repost: 'reposted your post' }[kind];
  return <li className={unread ? 'unread' : ''}>
    <p>{unread && <span className="hidden">New: </span>}<strong>{who || 'Somebody'}</strong> {did}</p>
    {post && <p className="about">{post.post.text}</p>}
    <time dateTime={at}>{new Date(at).toLocaleString()}</time>
  </li>;
}
