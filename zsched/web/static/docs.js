// Shows the OpenAPI document of this server, in the colours that the viewer's system has.
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

window.addEventListener("load", () => {
  SwaggerUIBundle({ url: "/api/v1/openapi.json", dom_id: "#swagger-ui", validatorUrl: null });
});

// Swagger UI leaves fields without a name, and code that scrolls without a place for the keyboard.
new MutationObserver(() => {
  document.querySelectorAll("select:not([aria-label]), textarea:not([aria-label])").forEach((each) => {
    each.setAttribute("aria-label", each.closest("[data-param-name]")?.dataset.paramName ?? (each.id || "choice"));
  });
  document.querySelectorAll("pre.microlight:not([tabindex])").forEach((each) => { each.tabIndex = 0; });
}).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
