// Shows the OpenAPI document of this server.
window.addEventListener("load", () => {
  SwaggerUIBundle({ url: "/api/v1/openapi.json", dom_id: "#swagger-ui", validatorUrl: null });
});
