// What the page is made with; figures.js makes it. report.json (docs/report-format.md) stands in #report,
// the Vega-Lite specs of figures/ in #specs. Text of the data becomes text of the page, never markup.
const report = JSON.parse(document.getElementById('report').textContent);
const specs = JSON.parse(document.getElementById('specs').textContent);
const byId = new Map(report.contestants.map(c => [c.id, c]));
const wide = () => document.documentElement.clientWidth >= 760;

// ---- Making elements -----------------------------------------------------------------------------

function el(tag, attributes = {}, ...children) {
  const made = tag === 'svg' || tag === 'path' || tag === 'line'
    ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(c => c !== null && c !== undefined));
  return made;
}

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  el('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function csv(rows) {
  const names = Object.keys(rows[0] ?? {});
  const cell = v => {
    const text = v === null || v === undefined ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows.map(r => names.map(n => r[n]))].map(r => r.map(cell).join(',') + '\r\n').join('');
}

const distinct = list => [...new Set(list)];

// ---- Numbers -------------------------------------------------------------------------------------

const special = {inf: Infinity, '-inf': -Infinity, nan: NaN};
const num = v => typeof v === 'string' && v in special ? special[v] : typeof v === 'number' ? v : null;
const superscript = k => [...String(k)].map(c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]).join('');
const power = (base, k) => k === 0 ? '1' : k === 1 ? String(base) : base + superscript(k);

// As people read it: three digits, and powers of ten where there would be many zeros.
function show(v) {
  const x = num(v);
  if (x === null) return v === null || v === undefined ? '–' : String(v);
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'nan' : x < 0 ? '−inf' : 'inf';
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return x.toLocaleString('en').replace('-', '−');
  if (size >= 1e6 || size < 1e-3) {
    const [digits, exponent] = x.toExponential(2).split('e');
    return `${digits.replace('-', '−')}×10${superscript(Number(exponent))}`;
  }
  return x.toLocaleString('en', {maximumSignificantDigits: 3}).replace('-', '−');
}
const count = n => Math.log2(n) % 1 === 0 && n >= 1024 ? `2${superscript(Math.log2(n))}` : n.toLocaleString('en');

function seconds(s) {
  for (const [unit, scale] of [['s', 1], ['ms', 1e-3], ['µs', 1e-6]])
    if (s >= scale) return `${show(s / scale)} ${unit}`;
  return `${show(s / 1e-9)} ns`;
}

// A logarithmic axis. What it has no place for goes into a band of its own: 0 below it, what is not
// finite above it.
function logAxis(values, base, most, label = k => power(base, k)) {
  const log = v => Math.log(v) / Math.log(base);
  const inside = values.filter(v => v > 0 && Number.isFinite(v)).map(log);
  if (!inside.length) inside.push(0);
  const low = Math.floor(Math.min(...inside) + 1e-9);
  const high = Math.max(Math.ceil(Math.max(...inside) - 1e-9), low + 1);
  const step = Math.ceil((high - low + 1) / most);
  const pad = (high - low) / most;
  const ticks = [], labels = [], bands = [];
  const domain = [low, high];
  if (values.includes(0)) {
    domain[0] = low - 1.2 * pad;
    bands.push({from: base ** domain[0], to: base ** (low - 0.2 * pad)});
    ticks.push(base ** (low - 0.7 * pad));
    labels.push('0');
  }
  for (let k = Math.ceil(low / step) * step; k <= high; k += step) {
    ticks.push(base ** k);
    labels.push(label(k));
  }
  if (values.some(v => v !== null && !Number.isFinite(v))) {
    domain[1] = high + 1.2 * pad;
    bands.push({from: base ** (high + 0.2 * pad), to: base ** domain[1]});
    ticks.push(base ** (high + 0.7 * pad));
    labels.push('not finite');
  }
  return {
    domain: domain.map(k => base ** k), ticks, bands,
    labels: `${JSON.stringify(labels)}[indexof(${JSON.stringify(ticks)}, datum.value)]`,
    place: v => v === 0 ? base ** (low - 0.7 * pad) : Number.isFinite(v) ? v : base ** (high + 0.7 * pad),
  };
}

// For throughput, which spans less: no wider than the values, with ticks at 1, 2, 5, 10, ...
function speedAxis(values) {
  const low = Math.min(...values) / 1.25, high = Math.max(...values) * 1.25;
  const ticks = [];
  for (let k = Math.floor(Math.log10(low)); 10 ** k <= high; ++k)
    ticks.push(...[1, 2, 5].map(d => d * 10 ** k).filter(v => v >= low && v <= high));
  return {domain: [low, high], ticks, labels: "format(datum.value, '~r')"};
}

// ---- Who looks how -------------------------------------------------------------------------------
// A contestant is a colour and a shape, the same in every figure: bitfold's methods filled, each in a
// colour of its own; the others hollow, a colour for each family (filled from its ninth on).

const circle = 'M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z';
const shapes = [circle, 'M-.9,-.9H.9V.9H-.9Z', 'M0,-1.2L1.2,0L0,1.2L-1.2,0Z', 'M0,-1.1L1.1,.8H-1.1Z', 'M0,1.1L1.1,-.8H-1.1Z',
  'M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z', 'M-1.1,0L.8,-1.1V1.1Z', 'M1.1,0L-.8,-1.1V1.1Z'];
const styles = new Map();

// Whose sums of small integers are wrong on this machine; their name says so everywhere.
const wrong = report.wrong ?? [];
const wrongIds = new Set(wrong.map(w => w.contestant));

// Same name, type and device twice: the accumulator and output types tell them apart.
const nameCount = new Map();
const nameKey = c => [c.name, c.in, c.device, Boolean(c.main)].join('\n');
for (const c of report.contestants) nameCount.set(nameKey(c), (nameCount.get(nameKey(c)) ?? 0) + 1);
const seriesOf = c => (nameCount.get(nameKey(c)) > 1 ? `${c.name} (${c.acc || '?'} to ${c.out})` : c.name) +
  (wrongIds.has(c.id) ? ', wrong here' : '');

{
  const families = [...new Set(report.contestants.filter(c => c.main && c.family !== 'bitfold').map(c => c.family))];
  const used = new Set();
  for (const c of report.contestants.filter(c => c.main)) {
    if (styles.has(seriesOf(c))) continue;
    const own = c.family === 'bitfold';
    const color = own ? `var(--own-${[...styles.values()].filter(s => s.own).length % 5})`
      : `var(--peer-${families.indexOf(c.family) % 8})`;
    let k = 0;
    while (k < 15 && used.has(color + k)) ++k;
    used.add(color + k);
    styles.set(seriesOf(c), {own, color, shape: shapes[k % 8], fill: own || k >= 8 ? color : 'var(--paper)', family: c.family});
  }
}

// ---- Tables --------------------------------------------------------------------------------------

// columns: {label, get: row => value, text: (value, row) => string or element, number: aligned right}
function table(caption, columns, rows, kind = {}) {
  // Roles, as a table that is displayed in blocks would lose them.
  const role = name => kind.class ? name : null;
  return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    el('table', {...kind, role: role('table')},
      el('caption', {}, caption),
      el('thead', {role: role('rowgroup')}, el('tr', {role: role('row')}, columns.map(c =>
        el('th', {scope: 'col', role: role('columnheader'), class: c.number ? 'number' : null}, c.label)))),
      el('tbody', {role: role('rowgroup')}, rows.map(row => el('tr', {role: role('row')}, columns.map((c, i) => {
        const value = c.get(row);
        return el(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : null, role: role(i === 0 ? 'rowheader' : 'cell'),
          'data-label': role(c.label), class: c.number ? 'number' : null},
          c.text ? c.text(value, row) : c.number ? show(value) : value === null || value === undefined ? '–' : String(value));
      }))))));
}

// A table that becomes a list where the screen is narrow: each row a block, with a line for each cell.
const stack = (caption, columns, rows) => table(caption, columns, rows, {class: 'stack'});

// Built when it is opened. Short ones are opened for printing; of the others the summary is printed.
function details(caption, columns, rows) {
  const box = el('details', {'data-rows': rows.length, ontoggle: () => {
    if (box.open && box.children.length === 1) box.append(table(caption, columns, rows));
  }}, el('summary', {}, `Table (${rows.length.toLocaleString('en')} ${rows.length === 1 ? 'row' : 'rows'})`));
  return box;
}
addEventListener('beforeprint', () => {
  for (const box of document.querySelectorAll('details:not([open])')) {
    if (box.dataset.rows > 40) continue;
    box.dataset.closeAgain = '';
    box.open = true;
    box.dispatchEvent(new Event('toggle'));
  }
});
addEventListener('afterprint', () => {
  for (const box of document.querySelectorAll('details[data-close-again]')) {
    delete box.dataset.closeAgain;
    box.open = false;
  }
});

const text = (label, get) => ({label, get});
const number = (label, get, how) => ({label, get, number: true, text: how});
const noise = row => row?.noisy ? '~' : '';
const rate = number('GB/s', r => r.gbps, (v, r) => noise(r) + show(v));
const who = text('contestant', r => seriesOf(byId.get(r.contestant)));
const errorColumns = [
  number('n', r => r.n, n => n.toLocaleString('en')), number('condition number', r => r.condition),
  number('ulps', r => r.ulps), number('mean ulps', r => r.ulps_mean), number('bias, ulps', r => r.bias_ulps),
  number('relative error', r => r.relative), number('correct bits', r => r.correct_bits),
  number('a-priori bound, relative', r => r.bound_relative), number('error / bound', r => r.bound_ratio),
  number('error / running bound', r => r.running_ratio), number('stagnations', r => r.stagnations),
  number('overflows', r => r.overflows),
  number('results over permutations', r => r.permutations, p => p ? `${p.distinct} of ${p.tried}` : '–'),
  number('GB/s', r => r.gbps),
];

// ---- A section with a figure ---------------------------------------------------------------------

let numbered = 0;
const redraws = [];

// id, title, caption; rows: what the CSV holds and the controls choose from; controls: {key, label,
// options: [[value, label]]}; draw(state, parts) fills parts.{chart, legend, table}.
function section({id, title, caption, rows, controls = [], draw}) {
  if (rows.length === 0) return;
  const heading = `${++numbered}. ${title}`;
  document.getElementById('contents').append(el('li', {}, el('a', {href: `#${id}`}, heading)));
  const state = {hidden: new Set(), seen: new Set()};
  const parts = {
    chart: el('div', {class: 'chart'}), legend: el('div', {class: 'legend'}), table: el('div'),
    note: el('p', {class: 'empty', role: 'status'}),
  };
  const choice = el('p', {class: 'choice'});  // for print, where there are no controls
  const redraw = () => {
    parts.note.textContent = '';
    choice.textContent = controls.filter(c => c.options.length > 1)
      .map(c => `${c.label}: ${c.options.find(o => o[0] === state[c.key])[1]}`).join('; ');
    draw(state, parts, redraw);
  };
  const selects = controls.filter(c => {
    state[c.key] = c.options.some(o => o[0] === c.first) ? c.first : c.options[0][0];
    return c.options.length > 1;
  }).map(c => {
    const select = el('select', {id: `${id}-${c.key}`, onchange: () => {
      state[c.key] = c.options[select.selectedIndex][0];
      redraw();
    }}, c.options.map(([value, label]) => el('option', {}, label)));
    select.selectedIndex = c.options.findIndex(o => o[0] === state[c.key]);
    return el('span', {class: 'control'}, el('label', {for: select.id}, c.label), select);
  });
  document.getElementById('figures').append(el('section', {id, 'aria-labelledby': `${id}-title`},
    el('h2', {id: `${id}-title`}, heading),
    selects.length ? el('div', {class: 'controls', role: 'group', 'aria-label': `Choices for ${title}`}, selects) : null, choice,
    el('figure', {'aria-labelledby': `${id}-title`}, parts.note, parts.chart, parts.legend, el('figcaption', {}, caption)),
    parts.table,
    el('p', {class: 'data'}, el('button', {type: 'button', onclick: () => download(`${id}.csv`, 'text/csv', csv(rows))},
      `${id}.csv`), ` all ${rows.length.toLocaleString('en')} rows`)));
  redraw();
  redraws.push(() => parts.drawing && redraw());
}

// ---- Plots ---------------------------------------------------------------------------------------

const plotConfig = {
  background: null, padding: 4, font: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  view: {stroke: null},
  axis: {
    labelColor: 'var(--muted)', titleColor: 'var(--ink)', domainColor: 'var(--axis)', tickColor: 'var(--axis)',
    gridColor: 'var(--grid)', titleFontWeight: 'normal', labelFontSize: 12, titleFontSize: 12, titlePadding: 8, labelPadding: 5,
  },
  title: {color: 'var(--ink)', fontWeight: 'normal', fontSize: 12, offset: 10},
  legend: {labelColor: 'var(--muted)', titleColor: 'var(--ink)', titleFontWeight: 'normal', labelFontSize: 11, titleFontSize: 12},
};

// Draws figures/NAME.json with its "$values" filled in.
async function plot(name, parts, values, patch) {
  if (!window.vegaEmbed) {
    parts.chart.replaceChildren(el('p', {class: 'empty'},
      'The figure is missing: this page was built without the plot library (scripts/get-vega). Its numbers are in the table.'));
    return;
  }
  const width = Math.floor(parts.chart.clientWidth);
  const all = {width, height: wide() ? 400 : 340, ...values};
  const spec = JSON.parse(JSON.stringify(specs[name]), (key, v) => typeof v === 'string' && v[0] === '$' ? all[v.slice(1)] : v);
  const drawing = parts.drawing = {};
  const box = el('div');
  const result = await vegaEmbed(box, spec, {
    mode: 'vega-lite', actions: false, renderer: 'svg', ast: true, defaultStyle: false, config: plotConfig, patch,
    tooltip: {disableDefaultStyle: true},
  });
  if (parts.drawing !== drawing) return result.finalize();  // another choice was made meanwhile
  parts.finalize?.();
  parts.finalize = result.finalize;
  parts.chart.replaceChildren(box);
}

// Buttons that show and hide; redraws.
function legend(parts, names, state, redraw, notes = []) {
  const active = document.activeElement?.dataset?.series;
  parts.legend.replaceChildren(...names.map(name => {
    const s = styles.get(name);
    return el('button', {type: 'button', 'aria-pressed': String(!state.hidden.has(name)), 'data-series': name, onclick: () => {
      if (!state.hidden.delete(name)) state.hidden.add(name);
      redraw();
    }}, el('svg', {viewBox: '-12 -7 24 14', width: 24, height: 14, 'aria-hidden': 'true'},
      el('line', {x1: -12, x2: 12, stroke: s.color, 'stroke-width': 1.6}),
      el('path', {d: s.shape, transform: 'scale(4)', fill: s.fill, stroke: s.color, 'stroke-width': .4})), name);
  }), ...notes.map(([color, label]) => el('span', {}, el('svg', {viewBox: '-12 -7 24 14', width: 24, height: 14, 'aria-hidden': 'true'},
    el('line', {x1: -12, x2: 12, stroke: color, 'stroke-width': 1.6, 'stroke-dasharray': '5 4'})), label)));
  [...parts.legend.children].find(b => active !== undefined && b.dataset.series === active)?.focus();
}

// Many curves are too many: the ladder's rungs wait to be asked for.
function names(rows, state) {
  const found = new Set(rows.map(r => seriesOf(byId.get(r.contestant))));
  const list = [...styles.keys()].filter(n => found.has(n));
  for (const n of list) {
    if (list.length > 12 && styles.get(n).family === 'road' && !state.seen.has(n)) state.hidden.add(n);
    state.seen.add(n);
  }
  return list;
}

const look = name => ({series: name, ...styles.get(name)});

// ---- Another width -------------------------------------------------------------------------------

let width = document.documentElement.clientWidth, timer = 0;
addEventListener('resize', () => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    redraws.forEach(redraw => redraw());
  }, 150);
});
