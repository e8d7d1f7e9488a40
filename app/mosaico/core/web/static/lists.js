// Lists that grow, rows of runs in progress, and the choice of two runs.
import { announce, byId, findAll, findFirst, listen } from "./dom.js";
import { refresh } from "./fragments.js";
import { request } from "./requests.js";

const NEW_ROWS_MS = 10000;
// Many runs change together.
const CHANGED_ROWS_MS = 500;

let knownStatuses = {};
let changedRowsTimer;

// A link offers the new rows; nothing moves by itself.
export async function offerNewRows() {
  const list = findFirst("[data-newest]")?.dataset;
  const link = byId("new-rows");
  if (document.hidden || !list || !link) return;
  const [text, response] = await request(list.newest);
  if (!response?.ok) return;
  const newCount = JSON.parse(text).items.filter((item) => isNewer(item, list.since)).length;
  const offer = `${newCount} new – show`;
  if (newCount && link.textContent !== offer) announce(offer);
  link.hidden = !newCount;
  link.textContent = offer;
}

// Compared as texts, because the clock of a browser has no microseconds. A time of the API ends with "Z", and `since`
// has no zone.
function isNewer(item, since) {
  return item.createdAt.slice(0, -1) > since;
}

async function showNewRows(event) {
  event.preventDefault();
  await refresh(location.href);
  findFirst("[data-row] a, [data-row] button")?.focus();
}

// Fetches the rows of runs in progress that have another status; they stay where they are.
export function refreshChangedRows(activeRuns) {
  if (activeRuns.some((run) => !knownStatuses[run.runId])) offerNewRows();
  knownStatuses = Object.fromEntries(activeRuns.map((run) => [run.runId, run.status]));
  changedRowsTimer ??= setTimeout(fetchChangedRows, CHANGED_ROWS_MS);
}

function fetchChangedRows() {
  changedRowsTimer = undefined;
  const rows = findAll("tr[data-run]").map((row) => row.dataset);
  const changed = rows.filter((row) => knownStatuses[row.run] !== row.status);
  if (!changed.length) return;
  const query = new URLSearchParams(changed.map((row) => ["id", row.run]));
  refresh(`/runs?${query}`, { parts: "tr[data-run]" });
}

// The address has the two runs of a comparison, so that other pages and filters of the list have them, too.
function chooseRun(event, box) {
  const query = new URLSearchParams(location.search);
  const other = findAll("#runs [name=run]:checked").findLast(({ value }) => value !== box.value);
  query.delete("run");
  for (const { value } of [other, box].filter((chosen) => chosen?.checked)) query.append("run", value);
  refresh(`/runs?${query}`, { remember: "run" });
}

setInterval(offerNewRows, NEW_ROWS_MS);
listen("click", "#new-rows[data-here]", showNewRows);
listen("change", "#runs [name=run]", chooseRun);
