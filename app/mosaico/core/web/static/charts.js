// Charts: arrow keys read the points, and Enter opens the run of one.
import { listen } from "./dom.js";

function readPoint(point) {
  const output = point.closest("[data-chart]").parentElement.querySelector("output");
  output.textContent = point.firstElementChild.textContent;
}

function moveToPoint(event, chart) {
  const points = [...chart.querySelectorAll("[data-point]")];
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -points.length, End: points.length }[event.key];
  if (!step || !points.length) return;
  event.preventDefault();
  const focused = points.indexOf(document.activeElement);
  // Without a focused point, the left arrow begins at the newest one.
  const start = focused < 0 && step < 0 ? points.length : focused;
  const point = points[Math.max(0, Math.min(points.length - 1, start + step))];
  readPoint(point);
  point.focus();
}

listen("keydown", "[data-chart]", moveToPoint);
listen("pointerover", "[data-chart] [data-point]", (event, point) => readPoint(point));
