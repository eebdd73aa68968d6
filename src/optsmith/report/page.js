"use strict";
// Progressive enhancement: tooltips, details of the tree, copy buttons and the theme switch.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = document.getElementById("tip");

  function showTip(title, text, x, y) {
    const head = document.createElement("b");
    head.textContent = title;
    tip.replaceChildren(head, text);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth;
    const left = Math.min(Math.max(8, x - box.width / 2), right - box.width - 8);
    const above = y - box.height - 14;
    tip.style.transform = `translate(${left}px, ${above > 8 ? above : y + 18}px)`;
  }
  const hideTip = () => { tip.hidden = true; };

  // Titles become labels, because the browser would show its own tooltips on top of ours.
  function takeTitle(element) {
    const title = [...element.children].find(child => child.localName === "title");
    const text = title ? title.textContent : "";
    title?.remove();
    return text;
  }

  // Scatter charts: a tooltip for the nearest dot; arrow keys move between dots.
  function dots(plot) {
    const marks = all("svg > circle, svg > rect.rug", plot)
      .map(element => ({ element, text: takeTitle(element) }))
      .filter(mark => mark.text);
    let hot = -1;
    const middle = mark => {
      const box = mark.element.getBoundingClientRect();
      return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    };
    function light(index) {
      if (hot >= 0) marks[hot].element.classList.remove("hot");
      hot = index;
      if (index < 0) return hideTip();
      const mark = marks[index];
      mark.element.classList.add("hot");
      const [title, ...lines] = mark.text.split("\n");
      const place = middle(mark);
      showTip(title, lines.join("\n"), place.x, place.y);
    }
    function point(event) {
      let best = -1;
      let nearest = 28 * 28;
      marks.forEach((mark, index) => {
        const place = middle(mark);
        const distance = (place.x - event.clientX) ** 2 + (place.y - event.clientY) ** 2;
        if (distance < nearest) { nearest = distance; best = index; }
      });
      if (best !== hot) light(best);
    }
    const across = ({ element }) =>
      Number.parseFloat(element.getAttribute("cx") ?? element.getAttribute("x"));
    const order = marks.map((mark, index) => index)
      .sort((a, b) => across(marks[a]) - across(marks[b]));
    function step(by) {
      const place = order.indexOf(hot);
      const first = by > 0 ? 0 : order.length - 1;
      const next = place < 0 ? first : Math.min(Math.max(place + by, 0), order.length - 1);
      light(order[next]);
    }
    return { point, step, end: () => light(-1), count: marks.length };
  }

  // Line charts: a tooltip with the values of all lines at the step under the pointer.
  function curves(plot, data) {
    const svg = plot.querySelector("svg");
    const cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cross.setAttribute("y2", "100%");
    cross.setAttribute("class", "cross");
    const places = [...new Set(data.flatMap(series => series.points.map(point => point[0])))]
      .sort((a, b) => a - b);
    let now = -1;
    const nearest = (points, x) => points.reduce(
      (a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
    function light(index) {
      now = index;
      if (index < 0) { cross.remove(); return hideTip(); }
      const x = places[index];
      cross.setAttribute("x1", `${x}%`);
      cross.setAttribute("x2", `${x}%`);
      svg.append(cross);
      const lines = data.map(series => ({ name: series.name, at: nearest(series.points, x) }))
        .map(line => `${line.at[2]}  ${line.name}`);
      const step = nearest(data.flatMap(series => series.points), x)[1];
      const box = plot.getBoundingClientRect();
      showTip(`step ${step}`, lines.join("\n"), box.x + box.width * x / 100, box.y + 30);
    }
    function point(event) {
      const box = plot.getBoundingClientRect();
      const x = 100 * (event.clientX - box.x) / box.width;
      if (x < -3 || x > 103) return light(-1);
      light(places.indexOf(nearest(places.map(place => [place]), x)[0]));
    }
    const step = by => light(Math.min(Math.max(now + by, 0), places.length - 1));
    return { point, step, end: () => light(-1), count: places.length };
  }

  const charts = [];
  for (const plot of all(".plot")) {
    const svg = plot.querySelector("svg");
    const name = takeTitle(svg);
    svg.removeAttribute("aria-labelledby");
    svg.setAttribute("aria-label", `${name}. ${svg.querySelector("desc").textContent}`);
    const block = plot.parentElement.querySelector("script[type='application/json']");
    const chart = block ? curves(plot, JSON.parse(block.textContent)) : dots(plot);
    if (!chart.count) continue;
    charts.push(chart);
    plot.addEventListener("pointermove", chart.point);
    plot.addEventListener("pointerdown", chart.point);
    // On touch screens the tooltip stays after the finger is lifted.
    plot.addEventListener("pointerleave", event => {
      if (event.pointerType !== "touch") chart.end();
    });
    plot.addEventListener("blur", chart.end);
    plot.addEventListener("keydown", event => {
      const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10,
        Home: -chart.count, End: chart.count }[event.key];
      if (by) { event.preventDefault(); chart.step(by); }
      if (event.key === "Escape") chart.end();
    });
  }
  // Tooltips have a fixed position, so they are hidden on scroll.
  window.addEventListener("scroll", () => {
    if (!tip.hidden) charts.forEach(chart => chart.end());
  }, { passive: true });

  // The super-tree: one tab stop per level; arrow keys move within and between levels.
  const detail = document.getElementById("tree-detail");
  const levels = all(".level").map(level => all(".child", level));
  function tell(child) {
    const code = document.createElement("code");
    code.textContent = child.dataset.node;
    detail.replaceChildren(code, child.dataset.facts);
    for (const other of levels.flat()) other.setAttribute("aria-pressed", other === child);
  }
  levels.forEach((children, level) => children.forEach((child, row) => {
    child.removeAttribute("title");
    child.setAttribute("aria-pressed", "false");
    child.setAttribute("aria-controls", "tree-detail");
    const stop = children.find(other => other.classList.contains("chosen")) ?? children[0];
    child.tabIndex = child === stop ? 0 : -1;
    child.addEventListener("focus", () => tell(child));
    child.addEventListener("click", () => tell(child));
    child.addEventListener("keydown", event => {
      const to = (l, r) => levels[l]?.[Math.min(Math.max(r, 0), levels[l].length - 1)];
      const next = {
        ArrowDown: () => to(level, row + 1),
        ArrowUp: () => to(level, row - 1),
        ArrowRight: () => to(level + 1, row),
        ArrowLeft: () => to(level - 1, row),
        Home: () => to(level, 0),
        End: () => to(level, children.length - 1),
      }[event.key]?.();
      if (!next) return;
      event.preventDefault();
      for (const other of levels.find(list => list.includes(next))) other.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }));

  for (const box of all(".copy")) {
    const button = box.querySelector("button");
    const code = box.querySelector("code");
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const theme = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const name = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark() ? "Show in light colours" : "Show in dark colours");
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
})();
