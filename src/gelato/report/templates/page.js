"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Tables: a click or Enter on a column's name sorts by it.
  const valueOf = (row, column) => {
    const text = row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
    return a.localeCompare(b);
  };
  const makeSortable = (table) => {
    const heads = all("thead th", table);
    const inGroups = table.dataset.sort === "groups";
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "descending" ||
          (!head.hasAttribute("aria-sort") && head.classList.contains("text"));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "ascending" : "descending");
        const home = inGroups ? table : table.tBodies[0];
        const units = inGroups ? Array.from(table.tBodies) : Array.from(home.rows);
        const keyed = units.map((unit, at) => [valueOf(inGroups ? unit.rows[0] : unit, column), at, unit]);
        const sign = down ? 1 : -1;
        keyed.sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1]);
        keyed.forEach(([, , unit]) => home.append(unit));
      });
    });
  };
  all("table[data-sort]").forEach(makeSortable);

  // Predicted links: filter, explanations, download.
  const links = document.getElementById("links");
  if (links) {
    const filter = document.getElementById("filter");
    const shown = document.getElementById("shown");
    const total = links.tBodies.length;
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      let count = 0;
      for (const group of links.tBodies) {
        const cells = all("td.id", group.rows[0]);
        const fits = cells.some((cell) => cell.title.toLowerCase().includes(wanted));
        group.hidden = !fits;
        count += fits;
      }
      shown.value = `${count} of ${total} links`;
    });
    links.addEventListener("click", (event) => {
      const button = event.target.closest("button.why");
      if (!button) return;
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
    });
    document.getElementById("download").addEventListener("click", () => {
      const table = JSON.parse(document.getElementById("links-data").textContent);
      const cell = (value) => {
        if (value === null) return "";
        if (typeof value === "number") return String(value);
        // Spreadsheets would run a text that starts like a formula.
        const text = value.replace(/^('*[=+\-@\t\r])/, "'$1");
        return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      };
      const lines = [table.columns, ...table.rows].map((row) => row.map(cell).join(","));
      const blob = new Blob([lines.join("\n") + "\n"], { type: "text/csv;charset=utf-8" });
      const anchor = document.createElement("a");
      anchor.href = URL.createObjectURL(blob);
      anchor.download = "links.csv";
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
    });
  }

  // The switch between both protocols.
  all("input[name=protocol]").forEach((radio) => radio.addEventListener("change", () => {
    all("[data-protocol]").forEach((part) => { part.hidden = part.dataset.protocol !== radio.value; });
  }));

  // Charts: values under the pointer, or by the arrow keys.
  all("svg[data-reading]").forEach((chart) => {
    const reading = JSON.parse(chart.dataset.reading);
    const output = chart.parentElement.querySelector("output");
    const cursor = chart.querySelector(".cursor");
    let place = -1;
    const show = (at) => {
      place = Math.max(0, Math.min(reading.x.length - 1, at));
      cursor.setAttribute("x1", reading.x[place]);
      cursor.setAttribute("x2", reading.x[place]);
      cursor.style.visibility = "visible";
      const values = reading.series.map(([name, list]) => `${name} ${list[place]}`);
      output.value = `${reading.at[place]}: ${values.join(", ")}`;
    };
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
      let best = 0;
      reading.x.forEach((other, at) => { if (Math.abs(other - x) < Math.abs(reading.x[best] - x)) best = at; });
      show(best);
    });
    chart.addEventListener("pointerleave", () => { cursor.style.visibility = "hidden"; });
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { event.preventDefault(); show(place + step); }
    });
  });

  // Heat maps: the pair under the pointer, read from all of them at once.
  const heat = document.getElementById("heat-data");
  if (heat) {
    const data = JSON.parse(heat.textContent);
    const output = document.getElementById("heat-reading");
    const size = data.nodes.length;
    let row = 0, column = -1;
    const show = () => {
      row = Math.max(0, Math.min(size - 1, row));
      column = Math.max(0, Math.min(size - 1, column));
      const values = data.maps.map((map) => `${map.name} ${map.values[row][column]}`);
      output.value = `${data.nodes[row]} and ${data.nodes[column]}: ` +
        (row === column ? "the same node" : values.join(", "));
    };
    all(".heat img").forEach((image) => {
      image.addEventListener("pointermove", (event) => {
        const box = image.getBoundingClientRect();
        row = Math.floor(size * (event.clientY - box.top) / box.height);
        column = Math.floor(size * (event.clientX - box.left) / box.width);
        show();
      });
      image.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move) return;
        event.preventDefault();
        row += move[0]; column += move[1];
        show();
      });
    });
  }
})();
