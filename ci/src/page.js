// Uses the page in the frame like a reader, and collects the mistakes.
const wrong = [];
const is = (what, found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};
const frame = document.querySelector("iframe");
const look = (page, view) => {
  const all = [...page.querySelectorAll("table.matrix tbody tr")];
  const shown = () => all.filter((row) => row.offsetParent).length;
  const [bad, find] = ["only-bad", "find"].map((id) => page.getElementById(id));
  is("there are rows", all.length > 0, true);
  is("all are shown", shown(), all.length);
  is("the page is as wide as the screen", page.documentElement.scrollWidth, view.innerWidth);
  const light = (color) => color.match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) / 3;
  const style = view.getComputedStyle(page.body);
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  is("the look that was asked for", dark, location.search === "?dark");
  is("the paper is dark", light(style.backgroundColor) < 64, dark);
  is("the ink stands out", Math.abs(light(style.color) - light(style.backgroundColor)) > 128, true);

  // The elements that the Tab key reaches, in order: the filter, the search field, the table (which the arrow keys
  // scroll).
  const stops = [...page.querySelectorAll("input, a[href], [tabindex]")].filter((stop) => stop.offsetParent);
  is("the first stops", stops.slice(0, 3).map((stop) => stop.id || stop.className), ["only-bad", "find", "wide"]);
  stops.slice(0, 4).forEach((stop) => { stop.focus(); is("a stop takes the keys", page.activeElement === stop, true); });

  bad.click();
  is("the rows that did not pass", shown(), all.filter((row) => !row.classList.contains("quiet")).length);
  bad.click();
  is("all rows again", shown(), all.length);
  const type = (text) => { find.value = text; find.dispatchEvent(new view.Event("input")); };
  const link = page.querySelector("table.matrix tbody td a");
  type(link.closest("tr").querySelector("th").textContent);
  is("what was searched is shown", !!link.offsetParent, true);
  is("little else is", shown() < all.length, true);
  type("no such words");
  is("nothing is found", shown(), 0);
  type("");
  is("all rows after a search", shown(), all.length);

  link.click();
  const found = page.querySelector(":target");
  is("the link leads somewhere", !!found, true);
  if (!found) return;
  const top = found.getBoundingClientRect().top;
  is("what happened is on the screen", top >= 0 && top < view.innerHeight, true);
  is("it has a name and a command", ["h3", "code"].map((part) => !!found.querySelector(part)), [true, true]);
};
frame.addEventListener("load", () => {
  try {
    look(frame.contentDocument, frame.contentWindow);
  } catch (error) {
    wrong.push(`${error}`);
  }
  document.getElementById("said").textContent = wrong.length ? wrong.join("\n") : "all is well";
});
