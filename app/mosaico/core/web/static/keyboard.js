// Keyboard shortcuts; the macro `shortcuts` lists them.
import { byId, findAll, listen } from "./dom.js";

const PAGES = { m: "/", r: "/runs", b: "/benchmarks", i: "/inbox", s: "/schedules" };
// From "g" to the letter of a page.
const PAGE_KEY_MS = 1500;
const ROW_KEYS = ["o", "a", "s", "x", "j", "k"];
// Of the page on which answers are judged.
const ANSWER_KEYS = ["1", "2", "3", "n", "e", "u", "ArrowLeft", "ArrowRight"];

let pageKeyAt = 0;

function handleKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || store.shortcuts === "off") return;
  const { key } = event;
  if (event.target.closest("input:not([type=checkbox]), select, textarea, dialog[open]")) {
    // The keys of the page work again.
    if (key === "Escape" && event.target.dataset.key) event.target.blur();
    return;
  }
  if (Date.now() - pageKeyAt < PAGE_KEY_MS && PAGES[key]) {
    location.href = PAGES[key];
    return;
  }
  pageKeyAt = key === "g" ? Date.now() : 0;
  const rows = findAll("[data-row]");
  if (key === "/") focusSearch(event);
  else if (key === "?") showShortcuts();
  else if ((key === "j" || key === "k") && rows.length) moveToRow(rows, key === "j" ? 1 : -1);
  else if (ROW_KEYS.includes(key)) pressRowKey(rows, key);
  else if (ANSWER_KEYS.includes(key)) pressAnswerKey(event, key);
}

function pressAnswerKey(event, key) {
  const target = document.querySelector(`[data-key="${key}"]`);
  if (!target) return;
  // Without it the letter would be written into the field.
  event.preventDefault();
  if (target.matches("textarea")) target.focus();
  else target.click();
}

function focusSearch(event) {
  event.preventDefault();
  byId("search")?.focus();
}

const showShortcuts = () => byId("shortcuts")?.showModal();
const findCurrentRow = (rows) => rows.find((row) => row.ariaCurrent);

function moveToRow(rows, step) {
  const current = findCurrentRow(rows);
  const next = rows[rows.indexOf(current) + step] ?? current ?? rows[0];
  if (current) current.ariaCurrent = null;
  next.ariaCurrent = "true";
  // A row without links takes the focus itself: the page scrolls to it.
  const target = next.querySelector("a, button") ?? next;
  target.tabIndex = 0;
  target.focus();
}

// Without a current row no key acts on one: it could be another one than the reader looks at.
function pressRowKey(rows, key) {
  const current = findCurrentRow(rows);
  const target = current
    ? current.querySelector(`[data-key="${key}"]`)
    : document.querySelector(`[data-key="${key}"]:not([data-row] *)`);
  target?.click();
}

for (const toggle of findAll("[data-shortcuts-switch]")) toggle.checked = store.shortcuts !== "off";
listen("change", "[data-shortcuts-switch]", (event, toggle) => (store.shortcuts = toggle.checked ? "on" : "off"));
listen("click", "[data-help]", showShortcuts);
addEventListener("keydown", handleKey);
