// Draws the page of a report: report.json (docs/report-format.md) stands in #report, the Vega-Lite
// specs of figures/ in #specs. Text of the data goes into the page as text only, never as markup.
'use strict';
(() => {
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
// colour of its own; the others hollow, a colour for each family.

const circle = 'M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z';
const shapes = [circle, 'M-.9,-.9H.9V.9H-.9Z', 'M0,-1.2L1.2,0L0,1.2L-1.2,0Z', 'M0,-1.1L1.1,.8H-1.1Z', 'M0,1.1L1.1,-.8H-1.1Z',
  'M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z', 'M-1.1,0L.8,-1.1V1.1Z', 'M1.1,0L-.8,-1.1V1.1Z'];
const styles = new Map();

// Same name, type and device twice: the accumulator and output types tell them apart.
const nameCount = new Map();
const nameKey = c => [c.name, c.in, c.device, Boolean(c.main)].join('\n');
for (const c of report.contestants) nameCount.set(nameKey(c), (nameCount.get(nameKey(c)) ?? 0) + 1);
const seriesOf = c => nameCount.get(nameKey(c)) > 1 ? `${c.name} (${c.acc || '?'} to ${c.out})` : c.name;

{
  const families = [...new Set(report.contestants.filter(c => c.main && c.family !== 'bitfold').map(c => c.family))];
  const used = new Set();
  for (const c of report.contestants.filter(c => c.main)) {
    if (styles.has(seriesOf(c))) continue;
    const own = c.family === 'bitfold';
    const color = own ? `var(--own-${[...styles.values()].filter(s => s.own).length % 4})`
      : `var(--peer-${families.indexOf(c.family) % 6})`;
    let k = 0;
    while (k < 7 && used.has(color + k)) ++k;
    used.add(color + k);
    styles.set(seriesOf(c), {own, color, shape: shapes[k], fill: own ? color : 'var(--paper)', family: c.family});
  }
}

// ---- Tables --------------------------------------------------------------------------------------

// columns: {label, get: row => value, text: (value, row) => string or element, number: aligned right}
function table(caption, columns, rows) {
  return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    el('table', {},
      el('caption', {}, caption),
      el('thead', {}, el('tr', {}, columns.map(c =>
        el('th', {scope: 'col', class: c.number ? 'number' : null}, c.label)))),
      el('tbody', {}, rows.map(row => el('tr', {}, columns.map((c, i) => {
        const value = c.get(row);
        return el(i === 0 ? 'th' : 'td', {scope: i === 0 ? 'row' : null, class: c.number ? 'number' : null},
          c.text ? c.text(value, row) : c.number ? show(value) : value === null || value === undefined ? '–' : String(value));
      }))))));
}

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
  const state = {hidden: new Set()};
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

// Many curves are too many: the road's rungs wait to be asked for.
function names(rows, state) {
  const found = new Set(rows.map(r => seriesOf(byId.get(r.contestant))));
  const list = [...styles.keys()].filter(n => found.has(n));
  if (!state.thinned) {
    if (list.length > 12) list.filter(n => styles.get(n).family === 'road').forEach(n => state.hidden.add(n));
    state.thinned = list.length > 0;
  }
  return list;
}

const look = name => ({series: name, ...styles.get(name)});
const distinct = list => [...new Set(list)];
const option = list => distinct(list).map(v => [v, String(v)]);
const deviceNames = {cpu: 'CPU', cuda: 'GPU (CUDA)'};
const main = r => byId.get(r.contestant).main;
const study = name => report.accuracy.filter(r => r.study === name);
const chosen = (rows, s) => rows.filter(r => main(r) && r.in === s.in && byId.get(r.contestant).device === s.device &&
  (s.input === undefined || r.input === s.input) && (s.n === undefined || r.n === s.n));
const typeControl = rows => ({key: 'in', label: 'Element type', options: option(rows.map(r => r.in)), first: 'f32'});
const deviceControl = rows => ({key: 'device', label: 'Device',
  options: distinct(rows.map(r => byId.get(r.contestant).device)).map(d => [d, deviceNames[d] ?? d])});
const inputControl = rows => ({key: 'input', label: 'Input', options: option(rows.map(r => r.input)), first: 'uniform'});
const measureControl = first => ({key: 'measure', label: 'Error', first,
  options: [['ulps', 'in ulps of the output type'], ['relative', 'relative']]});
const measureTitle = {ulps: 'largest error in ulps of the output type', relative: 'largest relative error'};

// The a-priori bound is stored as relative; in ulps it is that times |exact| over ulp(exact).
function bound(row, measure) {
  const relative = num(row.bound_relative);
  if (measure === 'relative' || relative === null) return relative;
  const [digits, least] = {f16: [11, -14], bf16: [8, -126], f32: [24, -126], f64: [53, -1022]}[byId.get(row.contestant).out] ?? [0, 0];
  const exact = Math.abs(Number(row.exact));
  if (!digits || !Number.isFinite(exact) || exact === 0) return null;
  let exponent = Math.floor(Math.log2(exact));
  if (2 ** exponent > exact) --exponent;
  return relative * exact / 2 ** (Math.max(exponent, least) - digits + 1);
}

// Plots what is shown, or says why there is nothing.
function finish(state, parts, list, shown, name, values, patch) {
  if (shown.length === 0) {
    parts.note.textContent = list.length ? 'All are hidden.' : 'Nothing was measured for this choice.';
    parts.drawing = {};
    parts.chart.replaceChildren();
    return;
  }
  plot(name, parts, values, patch);
}

const acrossX = (bands, x) => bands.map(b => ({...b, x: x.domain[0], x2: x.domain[1]}));

// ---- The figures ---------------------------------------------------------------------------------

// Labels beside marks, where they fit (Vega's label transform, which Vega-Lite does not have).
function labelMarks(vega) {
  vega.marks.push({
    type: 'text', aria: false, interactive: false, from: {data: 'points_marks'},
    encode: {enter: {text: {field: 'datum.series'}, fill: {value: 'var(--ink)'}, fontSize: {value: 11}}},
    transform: [{
      type: 'label', avoidMarks: ['points_marks'], anchor: ['right', 'left', 'top', 'bottom'],
      offset: [3], size: {signal: '[width, height]'},
    }],
  });
  return vega;
}

const inputs = study('inputs');
const timedInputs = inputs.filter(r => r.gbps !== null && r.gbps !== undefined);
section({
  id: 'frontier', title: 'Error against throughput', rows: timedInputs,
  caption: 'Each mark is a contestant on one array: further right is faster, further down is more accurate, and the thin line joins ' +
    'those that no other beats in both. A correctly rounded result is within 0.5 ulps. Both axes are logarithmic; the shaded bands ' +
    'hold errors that are 0 or not finite. Names that find no room beside their mark are in the list below, whose buttons hide and show marks.',
  controls: [typeControl(timedInputs), deviceControl(timedInputs), inputControl(timedInputs), measureControl('ulps')],
  draw(state, parts, redraw) {
    const rows = chosen(timedInputs, state);
    const list = names(rows, state);
    const shown = rows.filter(r => !state.hidden.has(seriesOf(byId.get(r.contestant))));
    const y = logAxis(shown.map(r => num(r[state.measure])), 10, 7);
    const x = speedAxis(shown.map(r => num(r.gbps)));
    const points = shown.filter(r => num(r[state.measure]) !== null).map(r => ({
      ...look(seriesOf(byId.get(r.contestant))), x: num(r.gbps), y: y.place(num(r[state.measure])),
      about: `${seriesOf(byId.get(r.contestant))}: ${show(r.gbps)} GB/s, ${show(r.ulps)} ulps, relative ${show(r.relative)}`,
    })).sort((a, b) => b.x - a.x);
    let least = Infinity;
    for (const p of points) if ((p.best = p.y < least)) least = p.y;
    finish(state, parts, list, shown, 'frontier', {
      rows: points, bands: acrossX(y.bands, x), xDomain: x.domain, xTicks: x.ticks, xLabels: x.labels, yDomain: y.domain, yTicks: y.ticks,
      yLabels: y.labels, xTitle: 'throughput in GB/s', yTitle: measureTitle[state.measure],
      description: `Error against throughput of ${points.length} contestants; the table below has the numbers.`,
    }, labelMarks);
    legend(parts, list, state, redraw);
    parts.table.replaceChildren(details(`Error and throughput: ${state.input}, ${state.in}, ${deviceNames[state.device]}`,
      [who, ...errorColumns], rows));
  },
});

function errorCurves(rows, xOf, xAxis, xTitle, tableTitle) {
  return (state, parts, redraw) => {
    const here = chosen(rows, state);
    const list = names(here, state);
    const shown = here.filter(r => !state.hidden.has(seriesOf(byId.get(r.contestant))) && Number.isFinite(num(xOf(r)) ?? NaN));
    const y = logAxis(shown.flatMap(r => [num(r[state.measure]), bound(r, state.measure)].filter((v, i) => i === 0 || Number.isFinite(v))), 10, 7);
    const x = xAxis(shown.map(r => num(xOf(r))));
    const points = shown.flatMap(r => {
      const name = seriesOf(byId.get(r.contestant));
      const at = {...look(name), x: num(xOf(r))};
      const error = num(r[state.measure]), limit = bound(r, state.measure);
      return [
        error === null ? null : {...at, y: y.place(error), about: `${name}, ${xTitle} ${show(xOf(r))}: ${show(r.ulps)} ulps, relative ${show(r.relative)}` +
          (limit === null ? '' : `, bound ${show(r.bound_relative)}`)},
        limit === null || !Number.isFinite(limit) ? null : {...at, y: y.place(limit), dashed: true},
      ].filter(p => p);
    });
    finish(state, parts, list, shown, 'curves', {
      rows: points, bands: acrossX(y.bands, x), xDomain: x.domain, xTicks: x.ticks, xLabels: x.labels, yDomain: y.domain, yTicks: y.ticks, yLabels: y.labels,
      xTitle, yTitle: measureTitle[state.measure], description: `${tableTitle}; the table below has the numbers.`,
    });
    legend(parts, list, state, redraw, [['var(--muted)', 'a-priori bound, in the colour of its curve']]);
    parts.table.replaceChildren(details(`${tableTitle}: ${state.input ? state.input + ', ' : ''}${state.in}, ${deviceNames[state.device]}`,
      [who, ...errorColumns], here));
  };
}

const lengths = study('length');
section({
  id: 'length', title: 'Error against length', rows: lengths,
  caption: 'Largest error over the samples, solid, and the bound that holds before anything is computed, dashed in the same colour, ' +
    'against the number of elements. Both axes are logarithmic; the shaded bands hold errors that are 0 or not finite.',
  controls: [typeControl(lengths), deviceControl(lengths), inputControl(lengths), measureControl('relative')],
  draw: errorCurves(lengths, r => r.n, v => logAxis(v, 2, wide() ? 12 : 6), 'number of elements', 'Error against length'),
});

const conditions = study('condition');
section({
  id: 'condition', title: 'Error against condition number', rows: conditions,
  caption: 'The condition number is the sum of the magnitudes over the magnitude of the sum: the more the elements cancel, the larger it is. ' +
    'Solid: largest error over the samples; dashed in the same colour: its a-priori bound. A relative error of 1 has no correct digit. Both axes are logarithmic.',
  controls: [typeControl(conditions), deviceControl(conditions), {key: 'n', label: 'Elements', options: distinct(conditions.map(r => r.n)).map(n => [n, count(n)])},
    measureControl('relative')],
  draw: errorCurves(conditions, r => r.condition, v => logAxis(v, 10, wide() ? 12 : 6), 'condition number', 'Error against condition number'),
});

section({
  id: 'heat', title: 'Error by input and contestant', rows: inputs,
  caption: 'Largest error in ulps of the output type over the samples: the darker, the less accurate, on a logarithmic scale. ∞ and × on red are results that are ' +
    'infinite or not a number while the exact one is finite. An empty cell was not measured.',
  controls: [typeControl(inputs), deviceControl(inputs)],
  draw(state, parts) {
    const rows = chosen(inputs, state);
    const columns = names(rows, {hidden: new Set()});
    const lines = distinct(rows.map(r => r.input));
    const cells = rows.map(r => ({r, series: seriesOf(byId.get(r.contestant)), u: num(r.ulps)})).filter(c => c.u !== null);
    const finite = cells.map(c => c.u).filter(u => u > 0 && Number.isFinite(u)).map(Math.log10);
    const low = -1, high = Math.min(Math.max(1, Math.ceil(Math.max(...finite, 1))), 8);
    const step = high > 4 ? 2 : 1;
    const zTicks = [low, ...[1, 2, 3, 4, 5, 6, 7, 8].filter(k => k <= high && (high - k) % step === 0)];
    const room = wide() && columns.length <= 18;
    const data = cells.map(({r, series, u}) => {
      const z = Number.isFinite(u) ? Math.max(low, Math.min(high, Math.log10(Math.max(u, 1e-300)))) : null;
      return {
        series, input: r.input, z, finite: z !== null, about: `${r.input}, ${series}: ${show(r.ulps)} ulps`,
        text: z === null ? Number.isNaN(u) ? '×' : '∞' : room ? u >= 1000 ? u.toExponential(0).replace(/e.(.*)/, (_, k) => '×10' + superscript(k)) : String(Number(u.toPrecision(2))) : '',
        ink: z === null ? '#fff' : (z - low) / (high - low) > 0.45 ? '#fff' : '#111',
      };
    });
    finish(state, parts, columns, rows, 'heat', {
      rows: data, columns, lines, height: 21 * lines.length, zDomain: [low, high], zTicks, labelAngle: wide() ? -40 : -90, labelLimit: wide() ? 220 : 96,
      zLabels: `datum.value === ${low} ? '≤ 0.1' : datum.value === ${high} ? '≥ 10' + ${JSON.stringify([...'⁰¹²³⁴⁵⁶⁷⁸'])}[${high}] : ` +
        `${JSON.stringify([0, 1, 2, 3, 4, 5, 6, 7, 8].map(k => power(10, k)))}[datum.value]`,
      gradientLength: Math.min(260, parts.chart.clientWidth / 2),
      description: `Largest error in ulps of ${columns.length} contestants on ${lines.length} inputs; the table below has the numbers.`,
    });
    const at = new Map(cells.map(c => [c.r.input + '\n' + c.series, c.u]));
    parts.table.replaceChildren(details(`Largest error in ulps: ${state.in}, ${deviceNames[state.device]}`, [
      text('input', input => input),
      ...columns.map(name => number(name, input => at.get(input + '\n' + name))),
    ], lines));
  },
});

section({
  id: 'bits', title: 'The same bits', rows: report.bits,
  caption: 'A digest stands for the bits of all results of a contestant on the test arrays, with one way to run it: a device, a number of threads, a SIMD target, ' +
    'a launch shape. The same letter is the same digest. A promise is kept when every digest is that of the reference; the others promise nothing and are only measured.',
  controls: [{key: 'in', label: 'Element type', options: option(report.bits.map(r => byId.get(r.contestant).in)), first: 'f32'}],
  draw(state, parts) {
    const groups = new Map();
    for (const r of report.bits) {
      const c = byId.get(r.contestant);
      if (!c.main || c.in !== state.in) continue;
      if (!groups.has(seriesOf(c))) groups.set(seriesOf(c), []);
      groups.get(seriesOf(c)).push(r);
    }
    const different = rows => Math.max(distinct(rows.map(r => r.digest)).length, ...rows.map(r => r.distinct ?? 1));
    const verdict = rows => rows.some(r => r.equal === false) ? mark('bad', '✗ broken')
      : rows.every(r => r.equal === true) ? mark('good', '✓ equal to the reference')
      : different(rows) === 1 ? mark('', 'one result') : mark('warn', `${different(rows)} results`);
    const letters = rows => { const d = distinct(rows.map(r => r.digest)); return r => String.fromCodePoint(65 + d.indexOf(r.digest) % 26); };
    const summary = table(`Results over all variations, ${state.in}`, [
      text('contestant', ([name]) => name),
      {label: 'promise', get: ([, rows]) => rows, text: verdict},
      number('different digests', ([, rows]) => different(rows)),
      number('variations', ([, rows]) => rows.length),
      number('runs of each array', ([, rows]) => rows.reduce((sum, r) => sum + (r.repeats ?? 1), 0)),
      {label: 'digest × variations', get: ([, rows]) => rows, text: rows => {
        const each = distinct(rows.map(r => r.digest));
        return el('span', {class: 'digest'}, each.slice(0, 2).map((d, i) =>
          `${i ? ', ' : ''}${d.slice(0, 8)}… ×${rows.filter(r => r.digest === d).length}`).join('') + (each.length > 2 ? ', …' : ''));
      }},
    ], [...groups]);
    parts.chart.replaceChildren(summary);
    const each = new Map([...groups].flatMap(([, rows]) => { const letter = letters(rows); return rows.map(r => [r, letter(r)]); }));
    parts.table.replaceChildren(details(`Digests by device and variation, ${state.in}`, [
      who, text('device', r => r.device_name), text('variation', r => r.variation),
      {label: 'digest', get: r => r, text: r => el('span', {class: 'digest'}, el('b', {}, each.get(r)), ` ${r.digest}`)},
      number('arrays', r => r.arrays), number('runs', r => r.repeats), number('digests of the runs', r => r.distinct),
      {label: 'the reference’s', get: r => r.equal, text: e => e === true ? mark('good', '✓ yes') : e === false ? mark('bad', '✗ no') : '–'},
    ], [...each.keys()]));
  },
});

function mark(kind, label) {
  return el('span', {class: `mark ${kind}`}, label);
}

section({
  id: 'time', title: 'Time against length', rows: report.speed,
  caption: 'Median time of one reduction against the number of elements, both logarithmic; dashed is the time that reading the same bytes takes, measured in the same run, ' +
    'which no contestant that reads memory can beat. “Fastest” takes each contestant’s fastest timed variation at each length.',
  controls: [
    typeControl(report.speed), deviceControl(report.speed),
    {key: 'threads', label: 'Threads', options: [['fastest', 'fastest'], ...distinct(report.speed.map(r => r.threads)).filter(t => t !== null && t !== undefined)
      .map(t => [t, t === 0 ? 'all cores' : String(t)])]},
    {key: 'measure', label: 'Show', options: [['seconds', 'time'], ['gbps', 'throughput']]},
  ],
  draw(state, parts, redraw) {
    const best = new Map();
    for (const r of chosen(report.speed, state)) {
      if (state.threads !== 'fastest' && r.threads !== state.threads && state.device === 'cpu') continue;
      const key = r.contestant + '\n' + r.n;
      if (!(best.get(key)?.seconds <= r.seconds)) best.set(key, r);
    }
    const rows = [...best.values()];
    const list = names(rows, state);
    const shown = rows.filter(r => !state.hidden.has(seriesOf(byId.get(r.contestant))));
    const size = rows.length ? rows[0].bytes / rows[0].n : 1;
    const lengths = rows.map(r => r.n);
    const ceiling = new Map();
    for (const c of report.ceilings) {
      const n = c.bytes / size;
      if (c.device !== state.device || n < Math.min(...lengths) || n > Math.max(...lengths)) continue;
      if (state.threads !== 'fastest' && state.device === 'cpu' && c.threads !== state.threads) continue;
      ceiling.set(n, Math.max(ceiling.get(n) ?? 0, c.gbps));
    }
    const points = [
      ...shown.map(r => ({
        ...look(seriesOf(byId.get(r.contestant))), x: r.n, y: r[state.measure],
        about: `${seriesOf(byId.get(r.contestant))}, ${count(r.n)} elements: ${seconds(r.seconds)}, ${show(r.gbps)} GB/s (${r.variation})`,
      })),
      ...[...ceiling].sort((a, b) => a[0] - b[0]).map(([n, gbps]) =>
        ({series: 'reading alone', color: 'var(--ink)', dashed: true, x: n, y: state.measure === 'gbps' ? gbps : n * size / gbps / 1e9})),
    ].filter(p => p.y > 0);
    const x = logAxis(points.map(p => p.x), 2, wide() ? 12 : 6);
    const y = logAxis(points.map(p => p.y), 10, 8, k => state.measure === 'gbps' ? power(10, k)
      : `${10 ** (((k % 3) + 3) % 3)} ${{'-4': 'ps', '-3': 'ns', '-2': 'µs', '-1': 'ms', 0: 's', 1: 'ks'}[Math.floor(k / 3)] ?? ''}`);
    finish(state, parts, list, shown, 'curves', {
      rows: points, bands: [], xDomain: x.domain, xTicks: x.ticks, xLabels: x.labels, yDomain: y.domain, yTicks: y.ticks, yLabels: y.labels,
      xTitle: 'number of elements', yTitle: state.measure === 'gbps' ? 'throughput in GB/s' : 'median time of one reduction',
      description: `Time of ${list.length} contestants against length; the table below has the numbers.`,
    });
    legend(parts, list, state, redraw, ceiling.size ? [['var(--ink)', 'reading alone']] : []);
    parts.table.replaceChildren(details(`Time: ${state.in}, ${deviceNames[state.device]}`, [
      who, number('n', r => r.n, n => n.toLocaleString('en')), number('bytes', r => r.bytes, n => n.toLocaleString('en')), text('variation', r => r.variation),
      number('time', r => r.seconds, seconds), number('variation of the time', r => r.cv), number('GB/s', r => r.gbps), number('of the read ceiling', r => r.ceiling_ratio),
    ], rows));
  },
});

const types = study('types');
section({
  id: 'types', title: 'Accumulator and output types', rows: types,
  caption: 'The same arrays with each choice of accumulator and output type. Stagnations are additions of a number other than 0 that changed nothing; ' +
    'overflows are finite results that became infinite.',
  controls: [inputControl(types), typeControl(types), deviceControl(types)],
  draw(state, parts) {
    const rows = types.filter(r => r.in === state.in && r.input === state.input && byId.get(r.contestant).device === state.device);
    if (rows.length === 0) parts.note.textContent = 'Nothing was measured for this choice.';
    const of = key => r => byId.get(r.contestant)[key];
    parts.chart.replaceChildren(...(rows.length ? [table(`${state.input}, ${state.in}, ${deviceNames[state.device]}`, [
      text('contestant', of('name')), {label: 'accumulator', get: of('acc'), text: v => v || 'not documented'}, text('output', of('out')),
      number('result', r => r.value), number('ulps', r => r.ulps), number('relative error', r => r.relative), number('correct bits', r => r.correct_bits),
      number('stagnations', r => r.stagnations), number('overflows', r => r.overflows),
    ], rows)] : []));
  },
});

const files = study('files');
section({
  id: 'files', title: 'Real arrays', rows: files,
  caption: 'Arrays of the files given to the report: for each contestant how many, its largest and mean error in ulps, and the array it did worst on.',
  controls: [typeControl(files), deviceControl(files)],
  draw(state, parts) {
    const rows = chosen(files, state);
    const value = r => { const u = num(r.ulps); return u === null ? -1 : Number.isNaN(u) ? Infinity : u; };
    parts.chart.replaceChildren(table(`Errors over all arrays: ${state.in}, ${deviceNames[state.device]}`, [
      text('contestant', ([name]) => name), number('arrays', ([, list]) => list.length),
      number('largest error, ulps', ([, list]) => list[0].ulps),
      number('mean error, ulps', ([, list]) => list.reduce((sum, r) => sum + (num(r.ulps_mean) ?? 0), 0) / list.length),
      number('within 0.5 ulps', ([, list]) => list.filter(r => num(r.ulps) <= 0.5).length),
      {label: 'worst on', get: ([, list]) => list[0].input, text: v => el('span', {class: 'prose'}, v)},
    ], names(rows, {hidden: new Set()}).map(name =>
      [name, rows.filter(r => seriesOf(byId.get(r.contestant)) === name).sort((a, b) => value(b) - value(a))])));
    parts.table.replaceChildren(details(`Each array: ${state.in}, ${deviceNames[state.device]}`, [{label: 'array', get: r => r.input, text: v => el('span', {class: 'prose'}, v)}, who, ...errorColumns], rows));
  },
});

section({
  id: 'contestants', title: 'Contestants', rows: report.contestants,
  caption: 'Who took part. Who promises must have the bits of the reference in every variation, and stay within its bound.',
  draw(state, parts) {
    const groups = new Map();
    for (const c of report.contestants) {
      const key = [c.name, c.family, c.about].join('\n');
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(c);
    }
    const join = (list, key) => distinct(list.map(c => c[key] || '?')).join(', ');
    parts.chart.replaceChildren(table('Contestants', [
      text('name', l => l[0].name), text('family', l => l[0].family), text('device', l => join(l, 'device')), text('elements', l => join(l, 'in')),
      text('accumulators', l => join(l, 'acc')), text('outputs', l => join(l, 'out')),
      text('promises', l => l.every(c => c.promise) ? 'yes' : l.some(c => c.promise) ? 'some' : 'no'),
      {label: 'what it is', get: l => l[0].about, text: v => el('span', {class: 'prose'}, v ?? '–')},
    ], [...groups.values()]));
    if (report.software.length)
      parts.table.append(el('h3', {}, 'Versions'), table('Software that was found', [text('name', s => s.name), text('version', s => s.version)], report.software));
    if (report.missing.length)
      parts.table.append(el('h3', {}, 'Missing'), table('Peers that were not found here', [text('name', m => m.name), text('why', m => m.why)], report.missing));
  },
});

section({
  id: 'inputs', title: 'Inputs', rows: report.inputs,
  caption: 'What the arrays are. Generated ones have the same bits on every platform.',
  draw(state, parts) {
    parts.chart.replaceChildren(details('Inputs', [text('input', i => i.id), text('kind', i => i.kind),
      {label: 'what it is', get: i => i.about, text: v => el('span', {class: 'prose'}, v ?? '–')}], report.inputs));
  },
});

// ---- Above the figures ---------------------------------------------------------------------------

{
  const {machine: m, bitfold: b} = report;
  document.getElementById('about').append(
    `bitfold ${b.version ?? '?'}, order version ${b.order_version ?? '?'}, commit `, el('code', {}, String(b.commit ?? '?').slice(0, 12)),
    `. ${report.date.replace('T', ' ').replace(/:\d\d(\.\d+)?Z$/, ' UTC')}, ${report.mode} run, seed ${report.seed ?? '?'}: `, el('code', {}, report.command));
  const facts = [
    ['System', m.system], ['CPU', m.cpu && `${m.cpu}, ${m.cores} cores${m.cpu_targets?.length ? ` (${m.cpu_targets.join(', ')})` : ''}`],
    ['GPU', m.gpus?.length ? distinct(m.gpus).map(g => { const k = m.gpus.filter(x => x === g).length; return k > 1 ? `${k} × ${g}` : g; }).join(', ') : 'none'],
    ['Compiler', [m.compiler, m.cuda && `CUDA ${m.cuda}`].filter(Boolean).join(', ')],
  ];
  document.getElementById('machine').append(...facts.filter(f => f[1]).map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', {}, String(v)))));

  document.getElementById('headlines').append(...report.headlines.map(h =>
    el('li', {}, el('p', {class: 'value'}, h.value), el('p', {class: 'label'}, h.label), h.note ? el('p', {class: 'notes'}, h.note) : null)));

  const box = document.getElementById('findings');
  const promised = report.contestants.filter(c => c.promise).length;
  const checks = report.bits.filter(r => r.equal !== null).length;
  if (report.findings.length === 0) {
    box.append(el('div', {class: 'panel good'}, el('p', {class: 'verdict'}, '✓ All promises kept'),
      el('p', {}, `${promised} contestants promise the bits of the reference and an error within their bound. ` +
        `None broke it: ${checks.toLocaleString('en')} variations checked for bits, ` +
        `${report.accuracy.filter(r => byId.get(r.contestant).promise).length.toLocaleString('en')} arrays for bounds.`)));
  } else {
    const broken = report.findings.length;
    const kinds = {bits: 'other bits', bound: 'beyond its bound'};
    box.append(el('div', {class: 'panel bad'}, el('p', {class: 'verdict'}, `✗ ${broken} ${broken === 1 ? 'promise' : 'promises'} broken`),
      table('Broken promises', [
        {label: 'contestant', get: f => byId.get(f.contestant), text: c => `${c.name} (${c.in}, ${c.device})`},
        text('what', f => kinds[f.kind] ?? f.kind), text('where', f => f.where), text('expected', f => f.expected), text('got', f => f.got),
      ], report.findings)));
  }
  document.getElementById('download').addEventListener('click', () =>
    download('report.json', 'application/json', document.getElementById('report').textContent));
}

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
})();
