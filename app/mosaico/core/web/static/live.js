// Live: one stream, in the visible tab only. An event has the state of the run that the page shows, otherwise of the
// inbox.
import { announce, byId, findAll, findFirst } from "./dom.js";
import { isRetrying, refresh } from "./fragments.js";
import { offerNewRows, refreshChangedRows } from "./lists.js";
import { locale } from "./numbers.js";

const MAX_FAILURES = 3;
const RETRY_MS = 1000;
const POLL_MS = 10000;

let source;
let sourceUrl;
let failures = 0;
let pollTimer;
// Every run that was in progress since the page was opened: a part that is fetched may have lost one already.
const seenRuns = new Set();

const findFollowed = () => findFirst("main [data-events]") ?? findFirst("[data-events]");
// The inbox alone is not a reason to replace parts of the page, such as a form that is being filled in.
const isInbox = (element) => element.id === "inbox-count";

function follow() {
  const element = findFollowed();
  if (document.hidden || !element) return stop();
  if (source && sourceUrl !== element.dataset.events) stop();
  if (!source && !pollTimer) openStream(element);
}

function openStream(element) {
  sourceUrl = element.dataset.events;
  source = new EventSource(sourceUrl);
  source.onopen = () => {
    failures = 0;
    showNote("");
  };
  source.addEventListener(element.dataset.event, (event) => showState(JSON.parse(event.data)));
  source.onerror = () => reconnect(element);
}

function reconnect(element) {
  showNote("reconnecting …");
  failures += 1;
  // The browser tries again by itself, unless the service answered with an error: then the source is closed.
  if (failures < MAX_FAILURES && source.readyState < EventSource.CLOSED) return;
  stop();
  const isOff = failures >= MAX_FAILURES;
  if (isOff) showNote("live updates off: the page asks every 10 s");
  pollTimer = setTimeout(poll, isOff || isInbox(element) ? POLL_MS : RETRY_MS, element);
}

async function poll(element) {
  pollTimer = undefined;
  if (!isInbox(element) && !isRetrying()) await refresh(location.href);
  follow();
}

function stop() {
  source?.close();
  clearTimeout(pollTimer);
  source = pollTimer = undefined;
}

function showNote(text) {
  for (const note of findAll("[data-live-note]")) note.textContent = text;
}

function showState(state) {
  const element = findFollowed();
  if (!element) return;
  if ("unread" in state) showUnread(`${state.unread}`);
  showProgress(element, state);
  if (isInbox(element)) return;
  if (element.id === "runs") return refreshChangedRows(state.activeRuns);
  // What has ended changes the order of the page: a link offers it.
  if (state.activeRuns) offerEndedRuns(element, state.activeRuns);
  refreshAfterChange(element, state);
}

function refreshAfterChange(element, state) {
  const summary = state.activeRuns ? summarizeRuns(state) : state.status;
  if (summary === element.dataset.state) return;
  element.dataset.state = summary;
  stop();
  if (state.status) announce(`Run ${state.status.toLowerCase()}`);
  refresh(location.href);
}

// As `morning.html` writes it.
function summarizeRuns({ unread, activeRuns }) {
  return [unread, ...activeRuns.map((run) => `${run.runId} ${run.status} ${run.tracesTotal ?? ""}`)].join();
}

function showProgress(element, state) {
  if (!state.activeRuns) return showProgressOf(element, state);
  for (const run of state.activeRuns) {
    showProgressOf(element.querySelector(`[data-run="${CSS.escape(run.runId)}"]`), run);
  }
}

function showProgressOf(part, { tracesTotal: total, tracesProcessed, tracesCollected }) {
  const text = part?.querySelector("[data-progress-text]");
  const bar = part?.querySelector("progress");
  if (!text || !(bar || total)) return;
  let processed = tracesProcessed;
  if (bar && total) {
    // Progress never goes back.
    processed = Math.max(bar.value, Math.min(processed, total));
    bar.max = total;
    bar.value = processed;
  }
  const count = (number) => number.toLocaleString(locale);
  // The same node, whose numbers are not written again.
  text.firstChild.data = total
    ? `${count(processed)} of ${count(total)}${bar ? " traces" : ""}`
    : `${count(tracesCollected)} traces collected`;
}

function offerEndedRuns(element, activeRuns) {
  const link = byId("new-rows");
  if (!link) return;
  for (const row of element.querySelectorAll("[data-run]")) seenRuns.add(row.dataset.run);
  for (const run of activeRuns) seenRuns.add(run.runId);
  const ended = seenRuns.size - activeRuns.length;
  link.hidden = !ended;
  link.textContent = `${ended} ended – show`;
}

function showUnread(number) {
  const badge = byId("inbox-count");
  if (badge.dataset.state === number) return;
  badge.dataset.state = number;
  for (const count of findAll(".count")) {
    count.firstChild.data = number;
    count.hidden = number === "0";
  }
  document.title = (badge.hidden ? "" : `(${number}) `) + document.title.replace(/^\(\d+\) /, "");
  offerNewRows();
}

document.addEventListener("visibilitychange", follow);
document.addEventListener("refreshed", follow);
follow();
