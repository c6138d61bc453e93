// The page of a report, from top to bottom, with what page.js offers. products.js and tables.js go on.

// ---- What figures choose from --------------------------------------------------------------------

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
    const columns = names(rows, {hidden: new Set(), seen: new Set()});
    const lines = distinct(rows.map(r => r.input));
    const cells = rows.map(r => ({r, series: seriesOf(byId.get(r.contestant)), u: num(r.ulps)})).filter(c => c.u !== null);
    const finite = cells.map(c => c.u).filter(u => u > 0 && Number.isFinite(u)).map(Math.log10);
    const low = -1, high = Math.min(Math.max(1, Math.ceil(Math.max(...finite, 1))), 8);
    const step = high > 4 ? (wide() ? 2 : 4) : high > 2 && !wide() ? 2 : 1;
    const zTicks = [low, ...[0, 1, 2, 3, 4, 5, 6, 7, 8].filter(k => (k > 0 || high <= 2) && k <= high && (high - k) % step === 0)];
    const room = wide() && columns.length <= 18;
    const data = cells.map(({r, series, u}) => {
      const z = Number.isFinite(u) ? Math.max(low, Math.min(high, Math.log10(Math.max(u, 1e-300)))) : null;
      return {
        series, input: r.input, z, finite: z !== null, about: `${r.input}, ${series}: ${show(r.ulps)} ulps`,
        text: z === null ? Number.isNaN(u) ? '×' : '∞' : room ? u >= 1000 ? u.toExponential(0).replace(/e.(.*)/, (_, k) => '×10' + superscript(k)) : String(Number(u.toPrecision(2))) : '',
        ink: z === null ? '#fff' : (z - low) / (high - low) > 0.45 ? '#fff' : '#111',
      };
    });
    // The last name stands out to the right of its column where names are slanted.
    const out = wide() && columns.length ? 5.6 * columns.at(-1).length - parts.chart.clientWidth * 0.42 / columns.length : 0;
    finish(state, parts, columns, rows, 'heat', {
      padding: {left: 4, top: 4, bottom: 4, right: Math.max(4, out)},
      rows: data, columns, lines, height: 21 * lines.length, zDomain: [low, high], zTicks, labelAngle: wide() ? -40 : -90, labelLimit: wide() ? 220 : 96,
      zLabels: `${JSON.stringify(zTicks.map(k => k === low ? '≤ 0.1' : (k === high ? '≥ ' : '') + power(10, k)))}[indexof(${JSON.stringify(zTicks)}, datum.value)]`,
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
    'about the least that any contestant can take. “Fastest” takes each contestant’s fastest timed variation at each length. In tables a ~ stands before a ' +
    'throughput that is noisy: its runs vary by more than a tenth.',
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
        about: `${seriesOf(byId.get(r.contestant))}, ${count(r.n)} elements: ${seconds(r.seconds)}, ${noise(r)}${show(r.gbps)} GB/s (${r.variation})`,
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
      number('time', r => r.seconds, seconds), number('variation of the time', r => r.cv), rate, number('of the read ceiling', r => r.ceiling_ratio),
    ], rows));
  },
});

// Throughput by the length of rows or columns, and whether the first of them keeps its bits in a batch.
const shaped = report.shapes ?? [], batches = report.batches ?? [];
section({
  id: 'shapes', title: 'Rows and columns', rows: shaped,
  caption: 'Throughput of reducing each row of a matrix (its elements lie side by side), or each column (they lie apart), against the length of one, with about as many ' +
    'elements in all; both axes are logarithmic, and each contestant has its fastest timed variation. Below: ✓ where the first row or column has the same bits alone ' +
    'and with others beside it; else the first batch size, of those tried, in which its bits are other ones.',
  controls: [typeControl(shaped), deviceControl(shaped), {key: 'layout', label: 'Reduce', options: option(shaped.map(r => r.layout))}],
  draw(state, parts, redraw) {
    const rows = chosen(shaped, state).filter(r => r.layout === state.layout);
    const best = new Map();
    for (const r of rows) {
      const key = r.contestant + '\n' + r.length;
      if (!(best.get(key)?.seconds <= r.seconds)) best.set(key, r);
    }
    const list = names(rows, state);
    const shown = [...best.values()].filter(r => !state.hidden.has(seriesOf(byId.get(r.contestant))));
    const points = shown.map(r => ({
      ...look(seriesOf(byId.get(r.contestant))), x: r.length, y: r.gbps,
      about: `${seriesOf(byId.get(r.contestant))}, ${state.layout} of ${count(r.length)}: ${seconds(r.seconds)}, ${noise(r)}${show(r.gbps)} GB/s (${r.variation})`,
    }));
    const x = logAxis(points.map(p => p.x), 2, wide() ? 12 : 6), y = speedAxis(points.map(p => p.y));
    finish(state, parts, list, shown, 'curves', {
      rows: points, bands: [], xDomain: x.domain, xTicks: x.ticks, xLabels: x.labels, yDomain: y.domain, yTicks: y.ticks, yLabels: y.labels,
      xTitle: `elements of a ${state.layout.slice(0, -1)}`, yTitle: 'throughput in GB/s',
      description: `Throughput of ${list.length} contestants against the length of ${state.layout}; the table below has the numbers.`,
    });
    legend(parts, list, state, redraw);
    const tried = chosen(batches, state).filter(r => r.layout === state.layout);
    const lengths = distinct(tried.map(r => r.length));
    const verdict = mine => {
      if (mine.length === 0) return '–';
      const changed = mine.map(r => r.changed).filter(k => k !== null && k !== undefined);
      return mine.every(r => r.distinct === 1) ? mark('good', '✓') : mark('warn', changed.length ? `at ${count(Math.min(...changed))}` : 'changes');
    };
    parts.table.replaceChildren(
      ...(tried.length ? [table(`Does the batch show? The first of the ${state.layout}, alone and among up to ${count(Math.max(...tried.map(r => r.largest)))}`, [
        text('contestant', name => name),
        ...lengths.map(length => ({label: count(length), number: true,
          get: name => tried.filter(r => r.length === length && seriesOf(byId.get(r.contestant)) === name), text: verdict})),
      ], distinct(tried.map(r => seriesOf(byId.get(r.contestant)))))] : []),
      details(`Rows and columns: ${state.layout}, ${state.in}, ${deviceNames[state.device]}`, [
        who, number('length', r => r.length, n => n.toLocaleString('en')), number('how many', r => r.outputs, n => n.toLocaleString('en')),
        text('variation', r => r.variation), number('time', r => r.seconds, seconds), rate, number('of the read ceiling', r => r.ceiling_ratio),
      ], rows));
  },
});

const opOf = c => c.op ?? 'sum';
const columnOf = c => c.family !== 'bitfold' ? c.family
  : c.method === null || c.method === 'tree' ? 'bitfold' : ['kahan', 'exact'].includes(c.method) ? `bitfold ${c.method}` : null;

const operations = study('operations');
const operationsOf = state => {
  const rows = operations.filter(r => r.in === state.in && byId.get(r.contestant).device === state.device);
  const timed = report.speed.filter(r => r.in === state.in && byId.get(r.contestant).device === state.device);
  const n = Math.max(...timed.filter(r => opOf(byId.get(r.contestant)) !== 'sum').map(r => r.n));
  return distinct(rows.map(r => r.contestant)).map(id => {
    const mine = rows.filter(r => r.contestant === id), worst = key => {
      const all = mine.map(r => num(r[key])).filter(v => v !== null);
      return all.length ? Math.max(...all) : null;
    };
    const bits = report.bits.filter(r => r.contestant === id);
    return {
      c: byId.get(id), op: opOf(byId.get(id)), ulps: worst('ulps'), ratio: worst('bound_ratio'), ways: bits.length,
      results: bits.length ? Math.max(distinct(bits.map(r => r.digest)).length, ...bits.map(r => r.distinct ?? 1)) : null,
      speed: timed.find(r => r.contestant === id && r.n === n) ?? null,  // the default variation comes first
    };
  });
};
section({
  id: 'operations', title: 'Every operation', rows: operations,
  caption: 'In each cell above: the largest error in ulps of the output type and, in brackets, that error over its a-priori bound: of bitfold its own, of the others ' +
    'that of additions in any order. Below: ✓ where all ways to run gave the same bits, or how many results they gave; and the throughput: bitfold’s by tree or without ' +
    'a method in GB/s, the others’ as a multiple of it on the same array. bitfold’s column has the method tree where there is a choice.',
  controls: [typeControl(operations), deviceControl(operations)],
  draw(state, parts) {
    const all = operationsOf(state);
    if (all.length === 0) parts.note.textContent = 'Nothing was measured for this choice.';
    // Who only sums is in the figures above; of a family, the first that has an operation stands for it.
    const columns = distinct(all.filter(o => o.op !== 'sum').map(o => columnOf(o.c)).filter(c => c !== null));
    const at = new Map();
    for (const o of all) {
      const key = o.op + '\n' + columnOf(o.c);
      if (!at.has(key)) at.set(key, o);
    }
    const relative = o => {
      const own = at.get(o.op + '\nbitfold')?.speed;
      return o.speed && own ? o.speed.gbps / own.gbps : null;
    };
    const cell = (o, column) => {
      if (!o) return '';
      const times = relative(o);
      const speed = column === 'bitfold' ? o.speed && `${noise(o.speed)}${show(o.speed.gbps)} GB/s` : times === null ? null : `${noise(o.speed)}${show(times)}×`;
      return el('span', {class: 'cell'}, el('span', {}, `${show(o.ulps)}${o.ratio === null ? '' : ` (${show(o.ratio)})`}`), el('br'),
        el('span', {}, [o.results === null ? null : o.results === 1 ? '✓' : `${o.results} results`, speed].filter(s => s).join(' ')));
    };
    parts.chart.replaceChildren(...(all.length ? [stack(`Operations: ${state.in}, ${deviceNames[state.device]}`, [
      text('operation', op => op),
      ...columns.map(column => ({label: column, get: op => at.get(op + '\n' + column), text: o => cell(o, column), number: true})),
    ], distinct(all.map(o => o.op)))] : []));
    parts.table.replaceChildren(details(`Each contestant: ${state.in}, ${deviceNames[state.device]}`, [
      text('operation', o => o.op), text('contestant', o => seriesOf(o.c)), text('output', o => o.c.out),
      number('largest error, ulps', o => o.ulps), number('error / bound', o => o.ratio),
      number('ways to run', o => o.ways), number('results', o => o.results),
      number('n of the speed', o => o.speed?.n, n => n === undefined ? '–' : count(n)), number('GB/s', o => o.speed?.gbps, (v, o) => noise(o.speed) + show(v)),
      number('of the read ceiling', o => o.speed?.ceiling_ratio), number('× bitfold', relative),
    ], all));
  },
});
