const root = new URL(".", location.href).pathname; // other than "/" behind a proxy that serves a path of its own

async function start() {
  const described = await (await fetch("openapi.json")).json();
  SwaggerUIBundle({
    spec: root === "/" ? described : { ...described, servers: [{ url: root }] },
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
  });
}

start();
