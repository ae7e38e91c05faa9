// Filters the rows of the table and keeps the choice in the address. `a` and `b` in the address are two columns to compare.
const table = document.querySelector("table.filtered");
const find = document.getElementById("find");
const choices = [...document.querySelectorAll("input[name=show]")];
const compared = [...document.querySelectorAll("select.compare")];
const rows = [...table.querySelectorAll("tr.entry")];
const searched = [...rows, ...document.querySelectorAll("section.found")];
const texts = searched.map((row) => row.textContent.toLowerCase());
const initial = choices.find((choice) => choice.checked);

const update = () => {
  const words = find.value.toLowerCase().split(/\s+/);
  const pair = compared.map((select) => select.selectedIndex);
  const comparing = pair.length === 2 && pair.every((column) => column > 0);
  document.body.classList.toggle("comparing", comparing);
  searched.forEach((row, n) => {
    const cells = row.cells;
    const same = comparing && cells && cells[pair[0]].textContent === cells[pair[1]].textContent;
    row.hidden = same || !words.every((word) => texts[n].includes(word));
  });
  if (compared.length) {
    for (const row of table.rows) {
      [...row.cells].forEach((cell, column) => { cell.hidden = comparing && column > 0 && !pair.includes(column); });
    }
  }
  // The style hides the rows that the choice leaves out.
  const chosen = choices.find((choice) => choice.checked).value;
  const shown = (row) => !row.hidden && (comparing || chosen === "all" || row.classList.contains(chosen));
  for (const body of table.tBodies) body.hidden = !rows.some((row) => row.parentElement === body && shown(row));
  document.getElementById("none").hidden = rows.some(shown);
};

const keep = () => {
  const kept = new URLSearchParams();
  const chosen = choices.find((choice) => choice.checked);
  if (chosen && chosen !== initial) kept.set("show", chosen.value);
  if (find.value) kept.set("find", find.value);
  compared.forEach((select) => { if (select.selectedIndex > 0) kept.set(select.id, select.value); });
  const query = kept.toString();
  history.replaceState(null, "", location.pathname + (query && "?" + query) + location.hash);
};

const given = new URLSearchParams(location.search);
find.value = given.get("find") || "";
choices.forEach((choice) => { if (choice.value === given.get("show")) choice.checked = true; });
compared.forEach((select) => { select.value = given.get(select.id) || ""; if (select.selectedIndex < 0) select.selectedIndex = 0; });
document.querySelectorAll(".script").forEach((part) => { part.hidden = false; });
[find, ...choices, ...compared].forEach((input) => input.addEventListener("input", () => { update(); keep(); }));
document.querySelectorAll("button.fold").forEach((button) => {
  button.disabled = false;
  button.addEventListener("click", () => {
    const folded = button.closest("tbody").classList.toggle("folded");
    button.setAttribute("aria-expanded", !folded);
  });
});
update();
