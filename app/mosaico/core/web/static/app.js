// What a browser adds to pages, which are complete without it.
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const first = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const live = byId("live");
const say = (text) => { live.textContent = ""; requestAnimationFrame(() => (live.textContent = text)); };
const on = (type, selector, act) =>
  addEventListener(type, (event) => {
    const target = event.target.closest?.(selector);
    if (target) act(event, target);
  });

// Theme
on("click", "[data-theme-button]", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  store.theme = root.dataset.theme = dark ? "light" : "dark";
});

// Time zone: the browser's, until the reader chooses one. The service writes the times again, if the cookie is kept.
const own = Intl.DateTimeFormat().resolvedOptions().timeZone, zoneCookie = /(^|; )mosaico_zone=/;
if (own && !zoneCookie.test(document.cookie)) {
  document.cookie = `mosaico_zone=${own}; path=/; max-age=31536000; samesite=lax`;
  if (own !== document.body.dataset.zone && zoneCookie.test(document.cookie)) location.reload();
}

// Ages grow while a page is open.
setInterval(() => {
  for (const time of all("time[data-kind=age]")) {
    const minutes = Math.trunc((Date.now() - new Date(time.dateTime)) / 60000), distance = Math.abs(minutes);
    const age = distance < 60 ? `${distance} min` : `${Math.trunc(distance / 60)} h`;
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
    // 4: the texts.
    const texts = document.createTreeWalker(element, 4);
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
  const label = (button.label ??= button.textContent);
  say((button.textContent = "Copied"));
  setTimeout(() => (button.textContent = label), 1500);
}
// Without a text, the address of the page.
on("click", "[data-copy]", (event, button) => copy(button.dataset.copy || location.href, button));
on("click", "[data-json]", async (event, button) => {
  const answers = await Promise.all(all("a[type]").map(({ href }) => ask(href)));
  if (answers.every(([, response]) => response?.ok)) copy(answers.map(([text]) => text).join("\n"), button);
});

// Changes: ask where it matters, and send each form once.
addEventListener("submit", (event) => {
  const { target: form, submitter } = event, question = new FormData(form, submitter).get("confirm");
  if (question && !confirm(question)) return event.preventDefault();
  // A form that is sent with its question is answered with a page that asks it.
  form.addEventListener("formdata", ({ formData }) => formData.delete("confirm"), { once: true });
  if (form.method === "post") setTimeout(() => form.querySelectorAll("button").forEach((button) => (button.disabled = true)));
});
addEventListener("pageshow", () => all("form button:disabled").forEach((button) => (button.disabled = false)));
all("[data-back]").forEach((button) => (button.hidden = history.length < 2));
on("click", "[data-back]", () => history.back());

// What the service answers to a request; nothing, and a sentence on the page, if it does not.
async function ask(url, request) {
  const answer = await fetch(url, request).then(async (response) => [await response.text(), response]).catch(() => []);
  const works = answer[1]?.status < 500 && answer[1].status !== 429;
  warn(works ? "" : "The server does not answer; this page tries again.");
  return works ? answer : [];
}
function warn(text) {
  const trouble = byId("trouble");
  if (trouble.textContent !== text) say(text);
  trouble.textContent = text;
  trouble.hidden = !text;
}

// Fragments: the parts of the page with [data-fragment] are replaced by those of a fetched page, or only `parts`.
// `remember` is the field whose change made the address; changes of one field are one step back.
let latest = 0, edited, retry;
async function refresh(url, options = {}, failures = 0) {
  const { remember, parts, ...request } = options;
  const mine = parts ? latest : ++latest;
  if (!parts) retry = clearTimeout(retry);
  const [text, response] = await ask(url, { headers: { Accept: "text/html" }, ...request });
  if (mine !== latest) return;
  const again = (time) => {
    const next = setTimeout(refresh, time, url, options, failures + 1);
    if (!parts) retry = next;
  };
  if (!response) return again(Math.min(30000, 1000 * 2 ** failures));
  if (response.redirected && new URL(response.url).pathname === "/login") return location.reload();
  const page = new DOMParser().parseFromString(text, "text/html");
  // A wrong value has a page of the same parts.
  if (!response.ok && response.status !== 422) return warn(`Not current: ${page.title}`);
  // A press whose target moves or is replaced is not a click.
  if (failures < 9 && first(":is(a, button, input, label, summary):active")) return again(300);
  for (const old of all(parts ?? "[data-fragment]")) {
    const fresh = page.getElementById(old.id);
    // A part with a field that is being filled in waits until that is left.
    const active = document.activeElement;
    if (!remember && old.contains(active) && active.matches("input, select, textarea")) active.onblur = () => again(1000);
    else if (fresh) replace(old, fresh);
  }
  if (parts) return;
  document.title = page.title;
  const count = first("[data-count]");
  if (count && remember) say(count.textContent);
  if (remember) history[remember === edited ? "replaceState" : "pushState"]({}, "", url);
  edited = remember ?? edited;
  address = location.pathname + location.search;
  follow();
}
// What a reader has ticked, typed, chosen, opened or closed, and focused stays when a part of the page is replaced.
function replace(old, fresh) {
  const kept = "a, button, input, select, textarea, summary, details, [tabindex]", twins = {};
  // Many rows have fields of the same name.
  const keyOf = (field) => [field.closest("[data-row]")?.id, field.localName, field.name, field.getAttribute("value"), field.closest("a, button, span")?.textContent];
  for (const field of fresh.querySelectorAll(kept)) (twins[keyOf(field)] ??= []).push(field);
  let focused;
  for (const field of old.querySelectorAll(kept)) {
    const twin = twins[keyOf(field)]?.shift(), value = twin?.value;
    if (!twin) continue;
    const initial = (field.querySelector("[selected]") ?? field[0])?.value ?? field.defaultValue;
    if (field === document.activeElement) focused = twin;
    if (field.checked !== field.defaultChecked) twin.checked = field.checked;
    if (field.value !== initial) twin.value = field.value;
    // The choice is no longer offered.
    if (twin.selectedIndex < 0) twin.value = value;
    if ((twin.isToggled = field.isToggled)) twin.open = field.open;
  }
  const id = first("[data-row][aria-current]")?.id;
  old.replaceWith(fresh);
  byId(id)?.setAttribute("aria-current", true);
  showNumbers(fresh);
  focused?.focus({ preventScroll: true });
}
on("click", "summary", (event, summary) => (summary.parentNode.isToggled = true));
let typing;
const onTyping = (selector, send) =>
  on("input", selector, (event, form) => {
    clearTimeout(typing);
    typing = setTimeout(() => send(form, new URLSearchParams(new FormData(form)), event.target.name), 150);
  });
onTyping("form[data-filter]", (form, query, remember) => {
  for (const [name, value] of [...query]) if (!value) query.delete(name, value);
  refresh(`${form.getAttribute("action")}${query.size ? `?${query}` : ""}`, { remember });
});
onTyping("form[data-preview]", (form, body) => {
  body.set("check", 1);
  refresh(form.action, { method: "POST", body });
});
// A link to a part of the page is not a new page.
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
    // The browser tries again by itself, unless the service answered with an error: then the source is closed (2).
    if (++failures < 3 && source.readyState < 2) return;
    stop();
    if (failures > 2) note("live updates off: the page asks every 10 s");
    // The inbox alone is not a reason to replace parts of the page, such as a form that is being filled in.
    const isInbox = run.id === "inbox-count";
    poll = setTimeout(async () => { poll = undefined; if (!isInbox && !retry) await refresh(location.href); follow(); }, failures < 3 && !isInbox ? 1000 : 10000);
  };
}
function stop() {
  source?.close();
  clearTimeout(poll);
  source = poll = undefined;
}
function showProgress(part, { tracesTotal: total, tracesProcessed: done, tracesCollected: collected }) {
  const text = part?.querySelector("[data-progress-text]"), bar = part?.querySelector("progress");
  if (!text || !(bar || total)) return;
  if (bar && total) { bar.max = total; bar.value = done = Math.max(bar.value, Math.min(done, total)); }
  const count = (number) => number.toLocaleString(locale);
  // The same node, whose numbers are not written again.
  text.firstChild.data = total ? `${count(done)} of ${count(total)}${bar ? " traces" : ""}` : `${count(collected)} traces collected`;
}
// Every run that was in progress since the page was opened: a part that is fetched may have lost one already.
const seen = new Set();
function show(state) {
  const element = followed();
  if (!element) return;
  const runs = state.activeRuns;
  if ("unread" in state) showUnread(`${state.unread}`);
  for (const run of runs ?? [state]) showProgress(runs ? element.querySelector(`[data-run="${CSS.escape(run.runId)}"]`) : element, run);
  if (element.id === "inbox-count") return;
  if (element.id === "runs") return showRows(runs);
  // What has ended changes the order of the page: a link offers it.
  const link = byId("new-rows");
  if (runs && link) {
    for (const row of element.querySelectorAll("[data-run]")) seen.add(row.dataset.run);
    for (const run of runs) seen.add(run.runId);
    const ended = seen.size - runs.length;
    link.hidden = !ended;
    link.textContent = `${ended} ended – show`;
  }
  const now = runs ? [state.unread, ...runs.map((run) => `${run.runId} ${run.status} ${run.tracesTotal ?? ""}`)].join() : state.status;
  if (now === element.dataset.state) return;
  element.dataset.state = now;
  stop();
  if (state.status) say(`Run ${state.status.toLowerCase()}`);
  refresh(location.href);
}
function showUnread(number) {
  const badge = byId("inbox-count");
  if (badge.dataset.state === number) return;
  badge.dataset.state = number;
  for (const count of all(".count")) {
    count.firstChild.data = number;
    count.hidden = number === "0";
  }
  document.title = (badge.hidden ? "" : `(${number}) `) + document.title.replace(/^\(\d+\) /, "");
  offerNew();
}
// A row of a run in progress that has another status is fetched, and stays where it is. Many runs change together.
let statuses = {}, rowsTimer;
function showRows(runs) {
  if (runs.some((run) => !statuses[run.runId])) offerNew();
  statuses = Object.fromEntries(runs.map((run) => [run.runId, run.status]));
  rowsTimer ??= setTimeout(() => {
    rowsTimer = undefined;
    const changed = all("tr[data-run]").map((row) => row.dataset).filter((row) => statuses[row.run] !== row.status);
    if (changed[0]) refresh(`/runs?${new URLSearchParams(changed.map((row) => ["id", row.run]))}`, { parts: "tr[data-run]" });
  }, 500);
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
setInterval(() => !document.hidden && !retry && first("[data-poll]") && refresh(location.href), 1000);

// Lists that grow: a link offers the new rows; nothing moves by itself.
async function offerNew() {
  const list = first("[data-newest]")?.dataset, link = byId("new-rows");
  if (document.hidden || !list || !link) return;
  const [text, response] = await ask(list.newest);
  if (!response?.ok) return;
  const { items } = JSON.parse(text);
  // As texts, because the clock of a browser has no microseconds. A time of the API ends with "Z", the other has no zone.
  const news = items.filter((item) => item.createdAt.slice(0, -1) > list.since).length;
  const offer = `${news} new – show`;
  if (news && link.textContent !== offer) say(offer);
  link.hidden = !news;
  link.textContent = offer;
}
setInterval(offerNew, 10000);
on("click", "#new-rows[data-here]", async (event) => {
  event.preventDefault();
  await refresh(location.href);
  first("[data-row] a, [data-row] button")?.focus();
});

// Two runs are chosen for a comparison: the address has them, so that other pages and filters of the list do, too.
on("change", "#runs [name=run]", (event, tick) => {
  const query = new URLSearchParams(location.search);
  const other = all("#runs [name=run]:checked").findLast(({ value }) => value !== tick.value);
  query.delete("run");
  for (const { value } of [other, tick].filter((box) => box?.checked)) query.append("run", value);
  refresh(`/runs?${query}`, { remember: "run" });
});

// Charts: arrow keys read the points, Enter opens the run of one.
const read = (point) => (point.closest("[data-chart]").parentElement.querySelector("output").textContent = point.firstElementChild.textContent);
on("keydown", "[data-chart]", (event, chart) => {
  const points = [...chart.querySelectorAll("[data-point]")];
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -points.length, End: points.length }[event.key];
  if (!step || !points.length) return;
  event.preventDefault();
  const now = points.indexOf(document.activeElement);
  const next = points[Math.max(0, Math.min(points.length - 1, (now < 0 && step < 0 ? points.length : now) + step))];
  read(next);
  next.focus();
});
on("pointerover", "[data-chart] [data-point]", (event, point) => read(point));

// Keyboard
const goTo = { m: "/", r: "/runs", b: "/benchmarks", i: "/inbox", s: "/schedules" };
let going;
const dialog = byId("shortcuts");
all("[data-shortcuts-switch]").forEach((toggle) => (toggle.checked = store.shortcuts !== "off"));
on("change", "[data-shortcuts-switch]", (event, toggle) => (store.shortcuts = toggle.checked ? "on" : "off"));
on("click", "[data-help]", () => dialog.showModal());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || store.shortcuts === "off") return;
  if (event.target.closest("input, select, textarea, dialog[open]")) return;
  const { key } = event;
  const rows = all("[data-row]"), row = rows.find((element) => element.ariaCurrent);
  if (Date.now() - going < 1500 && goTo[key]) return (location.href = goTo[key]);
  going = key === "g" && Date.now();
  if (key === "/") { event.preventDefault(); byId("search")?.focus(); }
  else if (key === "?") dialog?.showModal();
  else if ("jk".includes(key) && rows[0]) {
    const next = rows[rows.indexOf(row) + (key === "j" ? 1 : -1)] ?? row ?? rows[0];
    if (row) row.ariaCurrent = null;
    next.ariaCurrent = "true";
    // A row without links takes the focus itself: the page scrolls to it.
    const target = next.querySelector("a, button") ?? next;
    target.tabIndex = 0;
    target.focus();
  } else if ("oasxjk".includes(key)) {
    // Without a chosen row no key acts on one: it could be another one than the reader looks at.
    (row ?? document).querySelector(`[data-key="${key}"]${row ? "" : ":not([data-row] *)"}`)?.click();
  }
});
