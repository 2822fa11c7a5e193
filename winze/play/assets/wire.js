// The connection to the server: JSON messages out, binary frames in, one acknowledgement per drawn frame.

const TYPES = { u1: Uint8Array, f4: Float32Array, i4: Int32Array };

export function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  for (const [name, type, shape, offset] of head.arrays) {
    const count = shape.reduce((product, one) => product * one, 1);
    const data = new TYPES[type](buffer, 4 + size + offset, count);
    data.shape = shape;
    arrays[name] = data;
  }
  return { ...head, arrays };
}

export class Wire {
  constructor({ onFrame, onState }) {
    this.onFrame = onFrame;
    this.onState = onState;
    this.tries = 0;
    this.newest = new Map();
    this.page = Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}/live?page=${this.page}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.tries = 0; this.onState("open"); };
    this.socket.onmessage = (event) => {
      if (event.data instanceof ArrayBuffer) this.onFrame(decode(event.data));
    };
    this.socket.onclose = (event) => {
      this.onState("closed", event.code);
      const pause = Math.min(8000, 400 * 2 ** this.tries++);
      setTimeout(() => this.open(), event.code === 1013 ? 5000 : pause);
    };
  }

  // of messages that replace each other only the newest counts: at most one of a kind per 40 ms, below the server's rate
  sendNewest(what, more) {
    const isFirst = !this.newest.has(what);
    this.newest.set(what, more);
    if (!isFirst) return;
    this.flush();
    setTimeout(() => {
      const last = this.newest.get(what);
      this.newest.delete(what);
      if (last) this.sendNewest(what, last);
    }, 40);
  }

  // send what waits: another message is about what the page shows
  flush() {
    for (const [what, more] of this.newest) if (more) { this.send(what, more); this.newest.set(what, null); }
  }

  send(what, more = {}) {
    const open = this.socket.readyState === WebSocket.OPEN;
    if (open) this.socket.send(JSON.stringify({ do: what, ...more }));
    return open;
  }
}
