// Buttons that copy a text, the address of the page or its data.
import { announce, findAll, listen } from "./dom.js";
import { request } from "./requests.js";

// `navigator.clipboard` is missing on plain HTTP.
function copyBySelection(text, button) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  button.focus();
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text, button);
  }
  const label = (button.label ??= button.textContent);
  button.textContent = "Copied";
  announce("Copied");
  setTimeout(() => (button.textContent = label), 1500);
}

async function copyData(button) {
  const answers = await Promise.all(findAll("a[type]").map(({ href }) => request(href)));
  if (!answers.every(([, response]) => response?.ok)) return;
  copy(answers.map(([text]) => text).join("\n"), button);
}

// Without a text, the address of the page.
listen("click", "[data-copy]", (event, button) => copy(button.dataset.copy || location.href, button));
listen("click", "[data-json]", (event, button) => copyData(button));
