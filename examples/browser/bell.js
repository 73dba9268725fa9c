const $ = name => document.getElementById(name);
const badge = $('badge'), list = $('list'), panel = $('notices'), scroller = $('scroller');

let current; // the bell of the connected user

panel.addEventListener('toggle', () => current?.look());
scroller.addEventListener('scroll', () => current?.seen());
document.addEventListener('visibilitychange', () => current?.look());
const end = new IntersectionObserver(events => events.at(-1).isIntersecting && current?.older(), { root: scroller, rootMargin: '200px' });

// Bell shows the number of unread notifications, and lists the notifications while the list is open. A
// notification moves up with each new action on its target. So the list has one notification for each id,
// in its newest form.
export class Bell {
  #fanfare;
  #problem;
  #unread = 0;
  #items = [];  // newest first
  #next;        // the cursor after the last item
  #readTo;      // the read_to of the first page, until it is marked as read
  #turn = Promise.resolve();

  constructor(fanfare, problem) {
    current = this;
    this.#fanfare = fanfare;
    this.#problem = problem;
    this.#draw();
    $('none').hidden = true; // hidden until the list has been read
    $('bell').hidden = true; // a service without notifications sends no number
  }

  // ring shows a number of unread notifications from the stream.
  ring(unread) {
    $('bell').hidden = false;
    this.#count(unread);
    if (unread) this.look();
  }

  // look reads new notifications if the list is open and the page is visible.
  look() {
    if (panel.matches(':popover-open') && !document.hidden) this.#inTurn(() => this.#refresh());
  }

  // older reads the next page.
  older() {
    this.#inTurn(async () => {
      if (!this.#next) return;
      const page = await this.#page(this.#next);
      const ids = new Set(page.items.map(n => n.id)); // an item that is in both lists has moved down
      this.#items = [...this.#items.filter(n => !ids.has(n.id)), ...page.items];
      this.#next = page.next_cursor;
      this.#draw();
    });
  }

  // seen marks the notifications as read when the top of the list is visible.
  seen() {
    if (this.#readTo && scroller.scrollTop < 20 && panel.matches(':popover-open') && !document.hidden) this.#inTurn(() => this.#mark());
  }

  async #refresh() {
    const page = await this.#page();
    const ids = new Set(page.items.map(n => n.id));
    // All items below an unmoved notification were read before. If an item above it is missing on the
    // page, the item was removed or has moved down. Then the rest of the list is read again, by
    // scrolling.
    const join = this.#items.findLastIndex(old => page.items.some(n => n.id === old.id && n.at === old.at));
    if (page.next_cursor && join >= 0 && this.#items.slice(0, join).every(old => ids.has(old.id))) {
      this.#items = [...page.items, ...this.#items.slice(join + 1).filter(old => !ids.has(old.id))];
    } else {
      this.#items = page.items;
      this.#next = page.next_cursor;
    }
    this.#readTo = page.unread ? page.read_to : undefined;
    this.#count(page.unread);
    $('none').hidden = false;
    this.#draw();
    this.seen();
  }

  async #mark() {
    const readTo = this.#readTo;
    if (!readTo) return;
    const { unread } = await this.#fanfare.put('/v1/me/notifications/read', { body: { read_to: readTo } });
    this.#readTo = undefined;
    this.#count(unread);
    if (unread) this.look(); // the number arrived after the page
  }

  #page(cursor) {
    return this.#fanfare.get('/v1/me/notifications', { query: { limit: 10, expand: 'view', cursor } });
  }

  // Two concurrent reads would mix their pages.
  #inTurn(act) {
    this.#turn = this.#turn.then(() => current === this && act())
      .catch(error => { if (current === this && error.name !== 'AbortError') this.#problem(error); });
  }

  #count(unread) {
    const words = unread === 1 ? '1 unread notification' : `${unread < 10 ? unread : '10 or more'} unread notifications`;
    if (unread > this.#unread) $('news').textContent = words; // a screen reader reads the text aloud
    this.#unread = unread;
    badge.hidden = !unread;
    badge.textContent = unread < 10 ? unread : '10+';
    $('bell').title = unread ? words : '';
    document.title = unread ? `(${badge.textContent}) A live home` : 'A live home';
  }

  // #draw moves as few rows as possible, so that the visible rows do not move.
  #draw() {
    const rows = new Map([...list.children].map(row => [row.dataset.id, row]));
    this.#items.forEach((n, i) => {
      const row = rows.get(n.id) ?? document.createElement('li');
      rows.delete(n.id);
      row.dataset.id = n.id;
      row.classList.toggle('unread', n.unread);
      const shown = JSON.stringify(n);
      if (row.dataset.shown !== shown) row.replaceChildren(...words(n));
      row.dataset.shown = shown;
      if (list.children[i] !== row) list.insertBefore(row, list.children[i] ?? null);
    });
    rows.forEach(row => row.remove());
    end.disconnect();
    if (this.#next) end.observe($('more')); // the observer fires at once, because a page may be short
  }
}

function words(n) {
  const line = document.createElement('p');
  const say = (text, name = 'span') => {
    const part = document.createElement(name);
    part.textContent = text;
    line.append(part);
    return part;
  };
  if (n.unread) say('New: ').className = 'hidden';
  const more = n.kind === 'like' ? (n.count ?? 0) - n.actors.length : 0;
  n.actors.forEach(({ user, user_id }, i) => {
    if (i) say(i === n.actors.length - 1 && more <= 0 ? ' and ' : ', ');
    say(user?.name || user_id, 'strong');
  });
  if (more > 0) say(n.actors.length ? ` and ${more} more` : `${more} people`);
  say(` ${did(n, n.actors.length + Math.max(0, more))}`);
  const when = document.createElement('time');
  when.dateTime = n.at;
  const at = new Date(n.at), today = at.toDateString() === new Date().toDateString();
  when.textContent = at.toLocaleString([], { timeStyle: 'short', ...(!today && { dateStyle: 'medium' }) });
  if (!n.post) return [line, when];
  const about = document.createElement('p');
  about.className = 'about';
  about.textContent = n.post.post.text;
  return [line, about, when];
}

function did({ kind, actors, count }, people) {
  switch (kind) {
    case 'like':
      if (actors.some(actor => actor.reaction && actor.reaction !== 'like')) return 'reacted to your post';
      return people === 1 ? 'likes your post' : 'like your post';
    case 'comment': return people ? 'commented on your post' : `${count} comments on your post`;
    case 'follow': return people === 1 ? 'follows you' : people ? 'follow you' : `${count} followers`;
    case 'repost': return people ? 'reposted your post' : 'Your post was reposted';
    default: return people ? 'mentioned you' : 'You were mentioned';
  }
}
