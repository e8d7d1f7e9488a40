// Finds elements, listens to events and announces changes.

export const byId = (id) => document.getElementById(id);
export const findFirst = (selector) => document.querySelector(selector);
export const findAll = (selector) => [...document.querySelectorAll(selector)];

// Calls `handle(event, element)` for events on elements of the selector, also on those that are added later.
export function listen(type, selector, handle) {
  addEventListener(type, (event) => {
    const element = event.target.closest?.(selector);
    if (element) handle(event, element);
  });
}

// Lets screen readers speak a text, also one that is the same as before.
export function announce(text) {
  const live = byId("live");
  live.textContent = "";
  requestAnimationFrame(() => (live.textContent = text));
}
