(function () {
  'use strict';
  var FEW = 15;

  // What a cell sorts by: its number, else its text; null where it is unknown.
  function keyOf(row, column, isNumber) {
    var cell = row.cells[column];
    if (isNumber) { return cell.dataset.v === undefined ? null : Number(cell.dataset.v); }
    var text = cell.textContent.trim();
    return text === '' || text === '-' ? null : text;
  }

  // Unknown comes last, whichever way; rows that are equal keep the order of the report.
  function sorted(rows, column, isNumber, sign) {
    return rows.map(function (row, at) {
      return {row: row, at: at, key: keyOf(row, column, isNumber)};
    }).sort(function (a, b) {
      if (a.key === null || b.key === null) {
        return (a.key === null) - (b.key === null) || a.at - b.at;
      }
      var way = isNumber ? a.key - b.key : a.key.localeCompare(b.key, undefined, {numeric: true});
      return sign * way || a.at - b.at;
    }).map(function (one) { return one.row; });
  }

  function sortable(table) {
    var body = table.tBodies[0], rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      if (!head.textContent.trim()) { return; }
      var isNumber = 'n' in head.dataset, button = document.createElement('button');
      button.type = 'button';
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener('click', function () {
        // numbers begin with the largest, texts with A; a third time restores the order of the report
        var first = isNumber ? 'descending' : 'ascending', other = isNumber ? 'ascending' : 'descending';
        var was = head.getAttribute('aria-sort');
        var way = was === first ? other : was === other ? '' : first;
        heads.forEach(function (one) { one.removeAttribute('aria-sort'); });
        if (way) { head.setAttribute('aria-sort', way); }
        var order = way ? sorted(rows, column, isNumber, way === 'ascending' ? 1 : -1) : rows;
        order.forEach(function (row) { body.appendChild(row); });
      });
    });
  }

  // Long tables begin with their first rows; without this script, and so on paper from such a browser, all are there.
  function fold(table) {
    var body = table.tBodies[0], count = body.rows.length;
    if (count <= FEW + 3) { return; }
    var button = document.createElement('button');
    button.type = 'button';
    button.className = 'more';
    function show(all) {
      body.classList.toggle('few', !all);
      button.textContent = all ? 'Show the first ' + FEW + ' rows' : 'Show all ' + count + ' rows';
      button.setAttribute('aria-expanded', String(all));
    }
    button.addEventListener('click', function () { show(body.classList.contains('few')); });
    table.parentElement.insertAdjacentElement('afterend', button);
    show(false);
  }

  document.querySelectorAll('table[data-sorts]').forEach(sortable);
  document.querySelectorAll('table').forEach(fold);
}());
