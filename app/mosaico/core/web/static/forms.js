// Forms: ask before a change that matters, send each form once, and insert names into a text.
import { byId, findAll, listen } from "./dom.js";

const setDisabled = (buttons, disabled) => buttons.forEach((button) => (button.disabled = disabled));

function askAndSendOnce(event) {
  const { target: form, submitter } = event;
  const question = new FormData(form, submitter).get("confirm");
  if (question && !confirm(question)) {
    event.preventDefault();
    return;
  }
  // A form that is sent with its question is answered with a page that asks it.
  form.addEventListener("formdata", ({ formData }) => formData.delete("confirm"), { once: true });
  // Later, because a disabled button is not sent.
  if (form.method === "post") setTimeout(() => setDisabled(form.querySelectorAll("button"), true));
}

function insertName(event, link) {
  const field = byId(link.dataset.insert);
  event.preventDefault();
  field.setRangeText(link.textContent, field.selectionStart, field.selectionEnd, "end");
  field.focus();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

addEventListener("submit", askAndSendOnce);
// The page is shown again from the history of the browser.
addEventListener("pageshow", () => setDisabled(findAll("form button:disabled"), false));
findAll("[data-back]").forEach((button) => (button.hidden = history.length < 2));
listen("click", "[data-back]", () => history.back());
listen("click", "[data-insert]", insertName);
