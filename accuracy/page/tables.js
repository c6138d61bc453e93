// The page of a report, its end: tables of types, files, contestants and inputs; and what stands above all.

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
    ], names(rows, {hidden: new Set(), seen: new Set()}).map(name =>
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
      const key = opOf(c) === 'sum' ? [c.name, c.family, c.about].join('\n') : c.family;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(c);
    }
    const join = (list, key) => distinct(list.map(c => c[key] || '?')).join(', ');
    parts.chart.replaceChildren(stack('Contestants', [
      text('name', l => opOf(l[0]) === 'sum' ? l[0].name : `${l[0].family}, other operations`), text('family', l => l[0].family), text('device', l => join(l, 'device')), text('elements', l => join(l, 'in')),
      text('accumulators', l => join(l, 'acc')), text('outputs', l => join(l, 'out')),
      text('promises', l => l.every(c => c.promise) ? 'yes' : l.some(c => c.promise) ? 'some' : 'no'),
      {label: 'what it is', get: l => opOf(l[0]) === 'sum' ? l[0].about : distinct(l.map(opOf)).join(', '), text: v => el('span', {class: 'prose'}, v ?? '–')},
    ], [...groups.values()]));
    if (report.software.length)
      parts.table.append(el('h3', {}, 'Versions'), stack('Software that was found', [text('name', s => s.name), text('version', s => s.version)], report.software));
    if (report.missing.length)
      parts.table.append(el('h3', {}, 'Missing'), stack('Peers that were not found here', [text('name', m => m.name), text('why', m => m.why)], report.missing));
    if (wrong.length)
      parts.table.append(el('h3', {}, 'Wrong here'), stack('Who adds small integers wrongly on this machine, though every order of additions gives their exact sum', [
        {label: 'contestant', get: w => byId.get(w.contestant), text: c => `${c.name} (${c.in}, ${c.device})`}, text('variation', w => w.variation),
        text('where', w => w.where), number('expected', w => w.expected), number('got', w => w.got)], wrong));
    if (report.failures?.length)
      parts.table.append(el('h3', {}, 'Failures'), stack('Where a peer failed, and so has no result', [
        text('contestant', f => byId.get(f.contestant)?.name ?? f.contestant), text('where', f => f.where), text('why', f => f.why)], report.failures));
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
        `${[report.accuracy, report.products ?? [], report.ranks ?? []].flat().filter(r => byId.get(r.contestant).promise && r.bound_ratio !== null).length.toLocaleString('en')} ` +
        'arrays, products and sums over ranks for bounds.')));
  } else {
    const broken = report.findings.length;
    const kinds = {bits: 'other bits', bound: 'beyond its bound'};
    box.append(el('div', {class: 'panel bad'}, el('p', {class: 'verdict'}, `✗ ${broken} ${broken === 1 ? 'promise' : 'promises'} broken`),
      table('Broken promises', [
        {label: 'contestant', get: f => byId.get(f.contestant), text: c => `${c.name} (${c.in}, ${c.device})`},
        text('what', f => kinds[f.kind] ?? f.kind), text('where', f => f.where), text('expected', f => f.expected), text('got', f => f.got),
      ], report.findings)));
  }
  if (wrong.length)
    box.append(el('p', {class: 'mark warn', id: 'wrong'}, `Wrong here: ${distinct(wrong.map(w => byId.get(w.contestant))).map(c => `${c.name} (${c.in}, ${c.device})`).join(', ')}. ` +
      'Their sums of small integers, which are exact in any order, are wrong on this machine: see Contestants.'));
  document.getElementById('download').addEventListener('click', () =>
    download('report.json', 'application/json', document.getElementById('report').textContent));
}
