// The theme of the pages, as far as the reader chose one.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function showTheme() {
  const { theme } = document.documentElement.dataset;
  document.documentElement.classList.toggle("dark-mode", theme ? theme === "dark" : prefersDark.matches);
}
showTheme();
prefersDark.addEventListener("change", showTheme);

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
      // Below the title of the page, above the groups of operations, which are of level 3.
      document.querySelector(".info .title")?.setAttribute("aria-level", "2");
    },
  });
});
