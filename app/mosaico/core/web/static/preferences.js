// Theme and time zone of the reader.
import { listen } from "./dom.js";

const ZONE_COOKIE = /(^|; )mosaico_zone=/;

function changeTheme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  store.theme = dataset.theme = isDark ? "light" : "dark";
}

// The zone of the browser, until the reader chooses one. The service writes the times again, if the cookie is kept.
function sendTimeZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || ZONE_COOKIE.test(document.cookie)) return;
  document.cookie = `mosaico_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  if (zone !== document.body.dataset.zone && ZONE_COOKIE.test(document.cookie)) location.reload();
}

listen("click", "[data-theme-button]", changeTheme);
sendTimeZone();
