// The theme of the pages, as far as the reader chose one.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function showTheme() {
  const { theme } = document.documentElement.dataset;
  document.documentElement.classList.toggle("dark-mode", theme ? theme === "dark" : prefersDark.matches);
}
showTheme();
prefersDark.addEventListener("change", showTheme);

// What opened operations and the dialog of Authorize lack: names, and a way to scroll their examples by keyboard.
function nameParts() {
  const operationOf = (part) => part.closest(".opblock")?.querySelector(".opblock-summary-path")?.textContent ?? "";
  const names = {
    ".parameters select": (choice) => choice.closest("tr")?.dataset.paramName ?? "Value",
    "textarea.body-param__text": () => "Request body",
    ".copy-to-clipboard button": () => "Copy",
    ".close-modal": () => "Close",
    "table[role=region]": (table) => `Responses of ${operationOf(table)} ${table.id}`,
  };
  for (const [selector, name] of Object.entries(names)) {
    for (const part of document.querySelectorAll(`${selector}:not([aria-label])`)) part.setAttribute("aria-label", name(part));
  }
  // Below the name of the kind of key, which is of level 4.
  document.querySelector(".auth-container h6")?.setAttribute("aria-level", "5");
  for (const text of document.querySelectorAll(".swagger-ui pre:not([tabindex])")) text.tabIndex = 0;
}

// Keys stay in the memory of the page: persistAuthorization would leave them in localStorage.
window.addEventListener("load", () => {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    // Swagger UI puts a link into the button that opens an operation; a control within another has no name.
    plugins: [({ React }) => ({ components: { DeepLink: ({ text }) => React.createElement("span", null, text) } })],
    deepLinking: true,
    displayRequestDuration: true,
    filter: true,
    persistAuthorization: false,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => {
      document.querySelector("#servers")?.setAttribute("aria-label", "Server");
      new MutationObserver(nameParts).observe(document.querySelector("#swagger-ui"), { childList: true, subtree: true });
      // Below the title of the page, above the groups of operations, which are of level 3.
      document.querySelector(".info .title")?.setAttribute("aria-level", "2");
    },
  });
});
