// Requests to the service; the page says so when it does not answer.
import { announce, byId } from "./dom.js";

// The text and the response of a request; nothing if the service does not answer it.
export async function request(url, options) {
  const answer = await fetch(url, options)
    .then(async (response) => [await response.text(), response])
    .catch(() => []);
  const [, response] = answer;
  const isAnswered = response?.status < 500 && response.status !== 429;
  showTrouble(isAnswered ? "" : "The server does not answer; this page tries again.");
  return isAnswered ? answer : [];
}

// A sentence at the top of the page; without a text, it goes.
export function showTrouble(text) {
  const trouble = byId("trouble");
  if (trouble.textContent !== text) announce(text);
  trouble.textContent = text;
  trouble.hidden = !text;
}
