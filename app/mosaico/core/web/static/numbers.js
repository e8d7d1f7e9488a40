// Numbers as the language of the browser writes them, and ages that grow while a page is open.
import { findAll } from "./dom.js";

export const locale = navigator.language;

// The service writes numbers as English does. A date, a version or a part of a name is no number.
const NUMBER = /(?<![\w.,-])(\d{1,3}(,\d{3})+(\.\d+)?|\d+\.\d+)(?![\w-]|[.,]\d)/g;
const isEnglish = (12345.6).toLocaleString(locale) === "12,345.6";
// Each text is written once: "0,745" is another number in English.
const writtenTexts = new WeakSet();

function localizeNumber(number) {
  const digits = number.split(".")[1]?.length ?? 0;
  const format = {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    useGrouping: number.includes(","),
  };
  return new Intl.NumberFormat(locale, format).format(number.replaceAll(",", ""));
}

function localizeTexts(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (writtenTexts.has(text)) continue;
    writtenTexts.add(text);
    text.data = text.data.replace(NUMBER, localizeNumber);
  }
}

// Writes the numbers of a part of the page.
export function localizeNumbers(part) {
  if (isEnglish) return;
  part.parentNode.querySelectorAll(".num, .line, [data-numbers], svg").forEach(localizeTexts);
}

function writeAge(time) {
  const minutes = Math.trunc((Date.now() - new Date(time.dateTime)) / 60000);
  const distance = Math.abs(minutes);
  if (!distance) return;
  const age = distance < 60 ? `${distance} min` : `${Math.trunc(distance / 60)} h`;
  time.textContent = minutes < 0 ? `in ${age}` : `${age} ago`;
}

localizeNumbers(document.body);
setInterval(() => findAll("time[data-kind=age]").forEach(writeAge), 60000);
