// Runs before the first paint, so that a chosen theme does not flash. Where the browser refuses its storage, a choice
// lasts until the page is left.
try {
  window.store = localStorage;
} catch {
  window.store = {};
}
document.documentElement.dataset.theme = store.theme ?? "";
