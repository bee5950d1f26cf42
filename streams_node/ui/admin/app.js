// The admin page. Reads top-down: this file, views/shell.js, then a file a view.
import { html, render } from "./lib/html.js";
import { Shell } from "./views/shell.js";

const app = document.getElementById("app");
app.replaceChildren();
render(html`<${Shell} />`, app);
