// The reports made on this phone and the maps they are for, in the browser's database (IndexedDB), so that they survive being
// offline, a reload and an empty battery.

const NAME = "crowdfield-field";

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export class Queue {
  static async open() {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("reports", { keyPath: "id" });
      request.result.createObjectStore("maps", { keyPath: "id" });
    };
    const queue = new Queue();
    queue.database = await done(request);
    return queue;
  }

  // Runs one transaction and waits until it is on the disk.
  change(name, act) {
    const transaction = this.database.transaction(name, "readwrite", { durability: "strict" });
    act(transaction.objectStore(name));
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  }

  read(name) {
    return done(this.database.transaction(name).objectStore(name).getAll());
  }

  // Oldest first.
  async reports() {
    return (await this.read("reports")).sort((a, b) => a.created - b.created);
  }

  put(entry) {
    return this.change("reports", (store) => store.put(entry));
  }

  remove(id) {
    return this.change("reports", (store) => store.delete(id));
  }

  maps() {
    return this.read("maps");
  }

  setMaps(maps) {
    return this.change("maps", (store) => {
      store.clear();
      maps.forEach(({ id, title, labels, region, archived }) => store.put({ id, title, labels, region, archived }));
    });
  }
}
