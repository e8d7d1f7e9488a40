// Fragments: the parts of the page with [data-fragment] are replaced by those of a fetched page.
import { announce, byId, findAll, findFirst, listen } from "./dom.js";
import { localizeNumbers } from "./numbers.js";
import { request, showTrouble } from "./requests.js";

const MAX_RETRY_MS = 30000;
const FIELDS = "input, select, textarea";
// What a reader may have changed or focused.
const KEPT = `a, button, ${FIELDS}, summary, details, [tabindex]`;
const PRESSED = ":is(a, button, input, label, summary):active";
// A press that is held is waited for so often.
const MAX_PRESSED_RETRIES = 9;
const TYPING_PAUSE_MS = 150;

const currentAddress = () => location.pathname + location.search;

let address = currentAddress();
// The number of the newest refresh: an older answer comes too late.
let newestRefresh = 0;
// The field whose change made the address: changes of one field are one step back.
let rememberedField;
let retryTimer;
let typingTimer;

export const isRetrying = () => retryTimer !== undefined;

// Fetches a page and replaces the fragments of this one, or only the elements of the selector `parts`.
// `remember` is the name of the field whose change made the address. Other options are those of the request.
export async function refresh(url, options = {}, failures = 0) {
  const { remember, parts, ...requestOptions } = options;
  const number = parts ? newestRefresh : ++newestRefresh;
  if (!parts) retryTimer = clearTimeout(retryTimer);
  const [text, response] = await request(url, { headers: { Accept: "text/html" }, ...requestOptions });
  if (number !== newestRefresh) return;
  const retryAfter = (delay) => {
    const timer = setTimeout(refresh, delay, url, options, failures + 1);
    if (!parts) retryTimer = timer;
  };
  if (!response) return retryAfter(Math.min(MAX_RETRY_MS, 1000 * 2 ** failures));
  if (isLogin(response)) return location.reload();
  const page = new DOMParser().parseFromString(text, "text/html");
  // A wrong value (422) has a page of the same parts.
  if (!response.ok && response.status !== 422) return showTrouble(`Not current: ${page.title}`);
  // A press whose target moves or is replaced is not a click.
  if (failures < MAX_PRESSED_RETRIES && findFirst(PRESSED)) return retryAfter(300);
  replaceFragments(page, parts ?? "[data-fragment]", remember, retryAfter);
  if (!parts) showAddress(page, url, remember);
}

function isLogin(response) {
  return response.redirected && new URL(response.url).pathname === "/login";
}

function replaceFragments(page, selector, remember, retryAfter) {
  for (const old of findAll(selector)) {
    const fresh = page.getElementById(old.id);
    const active = document.activeElement;
    // A part with a field that is being filled in waits until that is left.
    if (!remember && old.contains(active) && active.matches(FIELDS)) active.onblur = () => retryAfter(1000);
    else if (fresh) replaceFragment(old, fresh);
    // What was waited for is a page of its own.
    else if (old.dataset.poll === "page") location.reload();
  }
}

function showAddress(page, url, remember) {
  document.title = page.title;
  const count = findFirst("[data-count]");
  if (count && remember) announce(count.textContent);
  if (remember) history[remember === rememberedField ? "replaceState" : "pushState"]({}, "", url);
  rememberedField = remember ?? rememberedField;
  address = currentAddress();
  document.dispatchEvent(new Event("refreshed"));
}

// What a reader has ticked, typed, chosen, opened or closed, and focused stays when a part of the page is replaced.
function replaceFragment(old, fresh) {
  const twins = groupByKey(fresh.querySelectorAll(KEPT));
  let focused;
  for (const element of old.querySelectorAll(KEPT)) {
    const twin = twins.get(keyOf(element))?.shift();
    if (!twin) continue;
    keepInput(element, twin);
    if (element === document.activeElement) focused = twin;
  }
  const currentRow = findFirst("[data-row][aria-current]")?.id;
  old.replaceWith(fresh);
  byId(currentRow)?.setAttribute("aria-current", true);
  localizeNumbers(fresh);
  focused?.focus({ preventScroll: true });
}

function groupByKey(elements) {
  const groups = new Map();
  for (const element of elements) {
    const key = keyOf(element);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(element);
  }
  return groups;
}

// The same for an element and its twin in another page. Many rows have fields of the same name.
function keyOf(element) {
  return [
    element.closest("[data-row]")?.id,
    element.localName,
    element.name,
    element.getAttribute("value"),
    element.closest("a, button, span")?.textContent,
  ].join();
}

function keepInput(element, twin) {
  const initialValue = (element.querySelector("[selected]") ?? element[0])?.value ?? element.defaultValue;
  const twinValue = twin.value;
  if (element.checked !== element.defaultChecked) twin.checked = element.checked;
  if (element.value !== initialValue) twin.value = element.value;
  // The choice is no longer offered.
  if (twin.selectedIndex < 0) twin.value = twinValue;
  twin.isToggled = element.isToggled;
  if (element.isToggled) twin.open = element.open;
}

// Calls `send(form, fields, name)` when a reader stops typing in a form of the selector.
function listenToTyping(selector, send) {
  listen("input", selector, (event, form) => {
    clearTimeout(typingTimer);
    const sendFields = () => send(form, new URLSearchParams(new FormData(form)), event.target.name);
    typingTimer = setTimeout(sendFields, TYPING_PAUSE_MS);
  });
}

function filterList(form, query, remember) {
  for (const [name, value] of [...query]) if (!value) query.delete(name, value);
  refresh(`${form.getAttribute("action")}${query.size ? `?${query}` : ""}`, { remember });
}

function previewForm(form, body) {
  body.set("check", 1);
  refresh(form.action, { method: "POST", body });
}

// An answer that is awaited.
function pollAnswer() {
  if (!document.hidden && !isRetrying() && findFirst("[data-poll]")) refresh(location.href);
}

listen("click", "summary", (event, summary) => (summary.parentNode.isToggled = true));
listenToTyping("form[data-filter]", filterList);
listenToTyping("form[data-preview]", previewForm);
// A link to a part of the page is not a new page.
addEventListener("popstate", () => address === currentAddress() || location.reload());
setInterval(pollAnswer, 1000);
