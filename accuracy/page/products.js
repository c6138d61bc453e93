// The page of a report: products of matrices, and sums over ranks.

const products = report.products ?? [], productBits = report.product_bits ?? [], productSpeed = report.product_speed ?? [];
const onDevice = (rows, state) => rows.filter(r => r.in === state.in && byId.get(r.contestant).device === state.device);
const nameOf = r => byId.get(r.contestant).name;
const productMeasures = [
  ['relative', 'largest, over |a|·|b|'], ['relative_median', 'median, over |a|·|b|'], ['ulps', 'largest, in ulps'], ['ulps_median', 'median, in ulps'],
  ['bound_ratio', 'largest, over its bound'],
];
section({
  id: 'products', title: 'Products of matrices', rows: products,
  caption: 'Errors of the elements of a product, each against its exact value: over the product of the magnitudes |a|·|b| of its row and column, or in ulps of the output ' +
    'type. “dots” have a product of that condition number on the diagonal, and there they are measured. The bound is bitfold’s own, or that of additions in any order of ' +
    'whoever says what type they are in. Below: ✓ where all ways to run (threads, SIMD targets), all numbers of rows that are multiplied together, or all layouts ' +
    '(operands by rows or by columns) gave the same bits, else how many results there were; and the speed, where a ~ says that it is noisy.',
  controls: [typeControl(products), deviceControl(products), {key: 'measure', label: 'Error', options: productMeasures}],
  draw(state, parts) {
    const rows = onDevice(products, state), bits = onDevice(productBits, state), speed = onDevice(productSpeed, state);
    const label = productMeasures.find(m => m[0] === state.measure)[1];
    const names = distinct([...rows, ...bits, ...speed].map(nameOf));
    if (names.length === 0) parts.note.textContent = 'Nothing was measured for this choice.';
    const of = list => name => list.find(r => nameOf(r) === name);
    const sizes = distinct(rows.map(r => `${r.rows} × ${r.inner} × ${r.columns}`)).join(', ');
    parts.chart.replaceChildren(...(names.length ? [stack(`Errors, ${label}: ${state.in}, ${sizes}`, [
      text('contestant', name => name),
      ...distinct(rows.map(r => r.input)).map(input => ({label: input, number: true,
        get: name => rows.find(r => nameOf(r) === name && r.input === input)?.[state.measure]})),
    ], names)] : []));
    const same = (key, changed) => row => row === undefined ? '–' : row[key] === 1 ? mark('good', '✓')
      : mark(row.equal === null ? 'warn' : 'bad', `${row[key]} results${changed && row.changed ? `, from ${row.changed} rows on` : ''}`);
    const gflops = row => row === undefined ? '–' : noise(row) + show(row.gflops);
    const shape = speed.length ? `, and GFLOPS of ${speed[0].rows} × ${speed[0].inner} × ${speed[0].columns}` : '';
    parts.table.replaceChildren(
      ...(bits.length + speed.length ? [stack(`What shows in the bits${shape}`, [
        text('contestant', name => name),
        {label: 'ways to run', get: of(bits), text: row => row?.ways === 1 ? 'one way' : same('way_results')(row), number: true},
        {label: 'rows together', get: of(bits), text: same('batch_results', true), number: true},
        {label: 'layouts', get: of(bits), text: same('layout_results'), number: true},
        {label: 'the definition’s', get: of(bits), text: r => r === undefined || r.equal === null ? '–' : r.equal ? mark('good', '✓ yes') : mark('bad', '✗ no'), number: true},
        {label: 'GFLOPS', get: of(speed), text: gflops, number: true},  // the default variation comes first
        {label: 'on 1 thread', get: of(speed.filter(r => r.threads === 1)), text: gflops, number: true},
      ], names)] : []),
      details(`Products: ${state.in}`, [
        who, text('input', r => r.input), number('condition number', r => r.condition), number('elements', r => r.elements),
        number('largest over |a|·|b|', r => r.relative), number('median', r => r.relative_median), number('largest ulps', r => r.ulps),
        number('median', r => r.ulps_median), number('error / bound', r => r.bound_ratio), number('overflows', r => r.overflows),
      ], rows));
  },
});

const ranks = report.ranks ?? [];
section({
  id: 'ranks', title: 'Sums over ranks', rows: ranks,
  caption: 'Contributions, arrays of one length, are added up by 1, 2, 3, 4 and 8 ranks that hold some of them each. In each cell: how many of the sums have other bits ' +
    'than on one rank. The ring and the recursive doubling are plain models, in one process, of what libraries of collectives do; each rank first adds up its own from left to ' +
    'right. bitfold’s ranks fold states of its tree. Times beside NCCL and gloo are not of this run: bitfold’s docs/distributed.md has them.',
  controls: [typeControl(ranks), {key: 'input', label: 'Input', options: option(ranks.map(r => r.input)), first: 'normal'}],
  draw(state, parts) {
    const rows = ranks.filter(r => r.in === state.in && r.input === state.input);
    if (rows.length === 0) parts.note.textContent = 'Nothing was measured for this choice.';
    const at = new Map(rows.map(r => [nameOf(r) + '\n' + r.ranks, r]));
    const worst = (name, key) => Math.max(...rows.filter(r => nameOf(r) === name).map(r => num(r[key]) ?? NaN));
    const changed = r => r === undefined ? '–' : r.changed === 0 ? mark('good', 'none')
      : mark('warn', `${r.changed.toLocaleString('en')} (${show(100 * r.changed / r.results)} %)`);
    parts.chart.replaceChildren(...(rows.length ? [stack(
      `Sums of ${rows[0].contributions} contributions with other bits than on one rank, of ${rows[0].results.toLocaleString('en')}: ${state.input}, ${state.in}`, [
        text('contestant', name => name),
        ...distinct(rows.map(r => r.ranks)).filter(k => k > 1).map(k => ({label: `${k} ranks`, get: name => at.get(name + '\n' + k), text: changed, number: true})),
        number('largest ulps', name => worst(name, 'ulps')), number('error / bound', name => rows.some(r => nameOf(r) === name && r.bound_ratio === null) ? null : worst(name, 'bound_ratio')),
      ], distinct(rows.map(nameOf)))] : []));
    parts.table.replaceChildren(details(`Sums over ranks: ${state.input}, ${state.in}`, [
      who, number('ranks', r => r.ranks), number('changed', r => r.changed), number('largest ulps', r => r.ulps), number('median ulps', r => r.ulps_median),
      number('error / bound', r => r.bound_ratio),
    ], rows));
  },
});
