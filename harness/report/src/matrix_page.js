const find = document.getElementById("find");
const rows = [...document.querySelectorAll("table.matrix tbody tr, section.found")];
const texts = rows.map((row) => row.textContent.toLowerCase());
find.parentElement.hidden = false;
find.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/);
  rows.forEach((row, n) => { row.hidden = !words.every((word) => texts[n].includes(word)); });
});
