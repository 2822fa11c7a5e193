// A page that is opened as a file may start no worker: its search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...addresses) => addresses.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.load(address).then(() => this.waiting.splice(0).forEach((data) => this.send(data)));
    }

    load(address) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: address, onload: done, onerror: failed });
        this.inside.document.body.append(script);
      }).then(() => { this.ready = true; });
    }

    send(data) { this.inside.dispatchEvent(new MessageEvent("message", { data })); }

    postMessage(data) { this.ready ? this.send(data) : this.waiting.push(data); }
  };
}
