"use strict";
// Draws the charts as they come into view, and sorts and searches the table of rows. No request leaves the page.
const page = JSON.parse(document.getElementById("charts").textContent);
const root = document.documentElement;
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const views = new Map();

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark.matches;
}

async function draw(element) {
  const chart = page.charts[element.dataset.chart];
  const spec = { ...chart, datasets: { ...(chart.datasets || {}), rows: page.rows } };
  const options = { actions: false, renderer: "svg", config: page.config[isDark() ? "dark" : "light"] };
  views.get(element)?.finalize();
  views.set(element, await vegaEmbed(element, spec, options));
}

// A chart inside closed details has no width yet, so each is drawn when it is first seen.
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      observer.unobserve(entry.target);
      draw(entry.target);
    }
  }
}, { rootMargin: "300px" });
document.querySelectorAll(".chart").forEach((element) => observer.observe(element));

function redraw() {
  [...views.keys()].forEach(draw);
}
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
systemIsDark.addEventListener("change", redraw);

const table = document.getElementById("examples");
const body = table.tBodies[0];
const rows = [...body.rows];
const searched = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const search = document.getElementById("search");
const group = document.getElementById("group");
const shown = document.getElementById("shown");

function narrow() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) {
    const text = searched.get(row);
    row.hidden = (group.value && row.dataset.group !== group.value) || !words.every((word) => text.includes(word));
    count += row.hidden ? 0 : 1;
  }
  shown.textContent = shown.dataset.text.replace("{shown}", count).replace("{all}", rows.length);
}
search.addEventListener("input", narrow);
group.addEventListener("change", narrow);
narrow();

function valueOf(row, index, isNumber) {
  const cell = row.cells[index];
  if (!isNumber) return cell.textContent.trim().toLowerCase();
  return cell.dataset.value === "" ? NaN : Number(cell.dataset.value);
}

function sortBy(header, isNumber) {
  const ascending = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const sign = ascending ? 1 : -1;
  const index = header.cellIndex;
  rows.sort((left, right) => {
    const [a, b] = [valueOf(left, index, isNumber), valueOf(right, index, isNumber)];
    if (!isNumber) return sign * a.localeCompare(b);
    // Rows without a value come last, whichever way the others are sorted.
    return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0;
  });
  body.append(...rows);
}
for (const header of table.tHead.rows[0].cells) {
  const button = header.querySelector("button");
  button.addEventListener("click", () => sortBy(header, button.dataset.kind === "number"));
}
