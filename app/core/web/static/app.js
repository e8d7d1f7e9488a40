// What a browser adds to pages, which are complete without it.
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const first = (selector) => document.querySelector(selector);
const all = (selector) => document.querySelectorAll(selector);
const live = byId("live");
const say = (text) => { live.textContent = ""; requestAnimationFrame(() => (live.textContent = text)); };
const on = (type, selector, act) =>
  document.addEventListener(type, (event) => {
    const target = event.target.closest?.(selector);
    if (target) act(event, target);
  });

// Theme
on("click", "[data-theme-button]", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

// Time zone: the browser's, until the reader chooses one.
const zone = document.body.dataset.zone;
if (!/(^|; )mosaico_zone=/.test(document.cookie)) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (own) {
    document.cookie = `mosaico_zone=${own}; path=/; max-age=31536000; samesite=lax`;
    if (own !== zone) showTimes(own);
  }
}
function showTimes(name) {
  const date = { timeZone: name, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  const short = new Intl.DateTimeFormat("en-GB", date);
  const exact = new Intl.DateTimeFormat("en-GB", { ...date, weekday: "short", year: "numeric", second: "2-digit", timeZoneName: "short" });
  for (const time of all("time[data-kind]")) {
    const at = new Date(time.dateTime);
    time.title = exact.format(at);
    if (time.dataset.kind !== "age") time.textContent = time.dataset.kind === "date" ? short.format(at).replace(",", "") : time.title;
  }
  const label = first(".zone");
  if (label) label.textContent = name;
}

// Ages grow while a page is open.
setInterval(() => {
  for (const time of all("time[data-kind=age]")) {
    const minutes = Math.round((Date.now() - new Date(time.dateTime)) / 60000), distance = Math.abs(minutes);
    const age = distance < 60 ? `${distance} min` : `${Math.round(distance / 60)} h`;
    if (distance) time.textContent = minutes < 0 ? `in ${age}` : `${age} ago`;
  }
}, 60000);

// Numbers as the browser's language writes them; the server writes them as English does. Each text once: "0,745" is
// another number in English.
const locale = navigator.language;
const isEnglish = (12345.6).toLocaleString(locale) === "12,345.6";
const shown = new WeakSet();
const localize = (text) => text.replace(/(?<![\w.,-])(\d{1,3}(,\d{3})+(\.\d+)?|\d+\.\d+)(?![\w-]|[.,]\d)/g, (number) => {
  const digits = number.split(".")[1]?.length ?? 0;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: number.includes(",") };
  return new Intl.NumberFormat(locale, format).format(number.replaceAll(",", ""));
});
function showNumbers(part) {
  if (isEnglish) return;
  for (const element of part.parentNode.querySelectorAll(".num, .line, [data-numbers], svg")) {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      if (shown.has(texts.currentNode)) continue;
      shown.add(texts.currentNode);
      texts.currentNode.data = localize(texts.currentNode.data);
    }
  }
}
showNumbers(document.body);

// Copy: `navigator.clipboard` is missing on plain HTTP.
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => (button.textContent = label), 1500);
}
on("click", "[data-copy]", (event, button) => copy(button.dataset.copy, button));
on("click", "[data-copy-from]", async (event, button) => copy(await (await fetch(button.dataset.copyFrom)).text(), button));
on("click", "[data-copy-link]", (event, button) => copy(location.href, button));

// Changes: ask where it matters, and send each form once.
on("submit", "form[data-confirm]", (event, form) => {
  if (!confirm(form.dataset.confirm)) event.preventDefault();
});
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  setTimeout(() => event.target.querySelectorAll("button").forEach((button) => (button.disabled = true)));
});
addEventListener("pageshow", () => all("form button:disabled").forEach((button) => (button.disabled = false)));
for (const button of all("[data-back]")) {
  button.hidden = history.length < 2;
  button.addEventListener("click", () => history.back());
}

// Fragments: the parts of the page with [data-fragment] are replaced by those of a fetched page.
// `remember` is the field whose change made the address; changes of one field are one step back.
let latest = 0, edited;
async function refresh(url, { remember, ...request } = {}) {
  const mine = ++latest;
  const response = await fetch(url, { headers: { Accept: "text/html" }, ...request });
  if (response.redirected && new URL(response.url).pathname === "/login") return location.reload();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (mine !== latest) return;
  for (const old of all("[data-fragment]")) {
    const fresh = page.getElementById(old.id);
    // The focus stays: a part with an open field or menu waits until that is left.
    const active = old.contains(document.activeElement) && document.activeElement;
    if (active && !remember && active.matches("input, select, textarea, details[open] *")) active.onblur = () => setTimeout(refresh, 1000, location.href);
    else if (fresh) {
      old.replaceWith(fresh);
      showNumbers(fresh);
      if (active) [...fresh.querySelectorAll("a, button, [tabindex]")].find((part) => part.textContent === active.textContent)?.focus();
    }
  }
  document.title = page.title;
  const count = first("[data-count]");
  if (count && remember) say(count.textContent);
  if (remember) history[remember === edited ? "replaceState" : "pushState"]({}, "", url);
  edited = remember ?? edited;
  address = location.pathname + location.search;
  follow();
}
let typing;
on("input", "form[data-filter]", (event, form) => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    refresh(`${form.getAttribute("action")}${query.size ? `?${query}` : ""}`, { remember: event.target.name });
  }, 150);
});
on("input", "form[data-preview]", (event, form) => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const body = new URLSearchParams(new FormData(form));
    body.set("check", 1);
    refresh(form.action, { method: "POST", body });
  }, 150);
});
// A link to a part of the page is no new page.
let address = location.pathname + location.search;
addEventListener("popstate", () => address === location.pathname + location.search || location.reload());

// Live: one stream, in the visible tab only. An event carries the state of the run that the page shows, else of the inbox.
let source, streamed, failures = 0, poll;
const followed = () => first("main [data-events]") ?? first("[data-events]");
function follow() {
  const run = followed();
  if (document.hidden || !run) return stop();
  if (source && streamed !== run.dataset.events) stop();
  if (source || poll) return;
  streamed = run.dataset.events;
  source = new EventSource(run.dataset.events);
  const note = (text) => all("[data-live-note]").forEach((element) => (element.textContent = text));
  source.onopen = () => { failures = 0; note(""); };
  source.addEventListener(run.dataset.event, (event) => show(JSON.parse(event.data)));
  source.onerror = () => {
    note("reconnecting …");
    // The browser tries again by itself, unless the service answered with an error.
    if (++failures < 3 && source.readyState !== EventSource.CLOSED) return;
    stop();
    if (failures > 2) note("live updates off: the page asks every 10 s");
    // The inbox alone is no reason to replace parts of the page, such as a form that is being filled in.
    const isInbox = run.id === "inbox-count";
    poll = setTimeout(() => { poll = undefined; (isInbox ? Promise.resolve() : refresh(location.href).catch(() => {})).then(follow); }, failures < 3 && !isInbox ? 1000 : 10000);
  };
}
function stop() {
  source?.close();
  clearTimeout(poll);
  source = poll = undefined;
}
function showProgress(part, { tracesTotal: total, tracesProcessed: done, tracesCollected: collected }) {
  const bar = part?.querySelector("progress");
  if (!bar) return;
  if (total) { bar.max = total; bar.value = Math.max(bar.value, Math.min(done, total)); }
  const count = (number) => number.toLocaleString(locale);
  // The same node, whose numbers are not written again.
  part.querySelector("[data-progress-text]").firstChild.data = total ? `${count(bar.value)} of ${count(total)} traces` : `${count(collected)} traces collected`;
}
let ended = 0;
function show(state) {
  const element = followed();
  if (!element) return;
  const runs = state.activeRuns;
  for (const run of runs ?? [state]) showProgress(runs ? element.querySelector(`[data-run="${CSS.escape(run.runId)}"]`) : element, run);
  const now = runs ? [state.unread, ...runs.map((run) => `${run.runId} ${run.status} ${run.tracesTotal ?? ""}`)].join() : `${state.status ?? state.unread}`;
  if (now === element.dataset.state) return;
  element.dataset.state = now;
  if (element.id === "inbox-count") {
    element.firstChild.data = now;
    element.hidden = now === "0";
    document.title = (element.hidden ? "" : `(${now}) `) + document.title.replace(/^\(\d+\) /, "");
    return;
  }
  stop();
  // What has ended changes the order of the page: a link offers it.
  const link = byId("new-rows");
  if (runs && link) {
    const ids = new Set(runs.map((run) => run.runId));
    ended += [...element.querySelectorAll("[data-run]")].filter((part) => !ids.has(part.dataset.run)).length;
    link.hidden = !ended;
    link.textContent = `${ended} ended – show`;
  }
  if (state.status) say(`Run ${state.status.toLowerCase()}`);
  refresh(location.href).catch(() => {});
}
document.addEventListener("visibilitychange", follow);
follow();

// Names that are inserted into a text
on("click", "[data-insert]", (event, link) => {
  const text = byId(link.dataset.insert);
  event.preventDefault();
  text.setRangeText(link.textContent, text.selectionStart, text.selectionEnd, "end");
  text.focus();
  text.dispatchEvent(new Event("input", { bubbles: true }));
});

// Answers that are awaited
setInterval(() => !document.hidden && first("[data-poll]") && refresh(location.href).catch(() => {}), 1000);

// Lists that grow: a link offers the new rows; nothing moves by itself.
setInterval(async () => {
  const list = first("[data-newest]");
  if (document.hidden || !list) return;
  const response = await fetch(list.dataset.newest, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!response?.ok) return;
  const { items } = await response.json();
  const index = items.findIndex((item) => item.id === list.dataset.first);
  const news = index < 0 ? items.length : index;
  const link = byId("new-rows");
  if (link) { link.hidden = !news; link.textContent = `${news} new – show`; }
}, 10000);

// Charts: arrow keys read the points, Enter opens the run of one.
on("keydown", "[data-chart]", (event, chart) => {
  const points = [...chart.querySelectorAll("[data-point]")];
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -points.length, End: points.length }[event.key];
  if (!step || !points.length) return;
  event.preventDefault();
  const now = points.findIndex((point) => point.classList.contains("read"));
  const from = now < 0 ? (step > 0 ? -1 : points.length) : now;
  const next = Math.max(0, Math.min(points.length - 1, from + step));
  points.forEach((point, index) => point.classList.toggle("read", index === next));
  chart.parentElement.querySelector("output").textContent = points[next].firstElementChild.textContent;
  if (points[next].href) points[next].focus();
});
on("pointerover", "[data-point]", (event, point) => {
  const output = point.closest("[data-chart]")?.parentElement.querySelector("output");
  if (output) output.textContent = point.firstElementChild.textContent;
});

// Keyboard
const goTo = { m: "/", r: "/runs", b: "/benchmarks", i: "/inbox", s: "/schedules" };
let going = 0;
const dialog = byId("shortcuts");
const toggle = first("[data-shortcuts-switch]");
if (toggle) {
  toggle.checked = localStorage.getItem("shortcuts") !== "off";
  toggle.addEventListener("change", () => localStorage.setItem("shortcuts", toggle.checked ? "on" : "off"));
}
on("click", "[data-help]", () => dialog.showModal());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || localStorage.getItem("shortcuts") === "off") return;
  if (event.target.closest("input, select, textarea, dialog[open]")) return;
  const { key } = event;
  const rows = [...all("[data-row]")];
  const row = rows.findIndex((element) => element.hasAttribute("aria-current"));
  if (Date.now() - going < 1500 && goTo[key]) return (location.href = goTo[key]);
  going = 0;
  if (key === "g") going = Date.now();
  else if (key === "/") { event.preventDefault(); byId("search")?.focus(); }
  else if (key === "?") dialog?.showModal();
  else if ("jk".includes(key) && rows.length) {
    const next = Math.max(0, Math.min(rows.length - 1, row + (key === "j" ? 1 : -1)));
    rows[row]?.removeAttribute("aria-current");
    rows[next].setAttribute("aria-current", "true");
    (rows[next].querySelector("a, button") ?? rows[next]).focus();
    rows[next].scrollIntoView({ block: "nearest" });
  } else if ("oasxjk".includes(event.key)) {
    // Without a chosen row no key acts on one: it could be another one than the reader looks at.
    (rows[row] ?? document).querySelector(`[data-key="${event.key}"]${rows[row] ? "" : ":not([data-row] *)"}`)?.click();
  }
});
