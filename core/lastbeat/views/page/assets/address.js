"use strict";
/* Address: what people have chosen stands behind the question mark of the address, so that a link shows the same. */
const Address = (() => {
  let writing = null, coming = null;

  const path = () => (coming ?? location.hash).split("?")[0] || "#/";
  const query = () => new URLSearchParams((coming ?? location.hash).split("?")[1] ?? "");

  /** Writes it soon: browsers refuse an address that changes with each key. */
  function write(address) {
    clearTimeout(writing);
    const before = location.hash;
    coming = address;
    writing = setTimeout(() => {
      coming = null;
      // People may have gone elsewhere since.
      if (location.hash !== before) return;
      try {
        history.replaceState(null, "", address);
      } catch {
        // Then it is not in the address; it works all the same.
      }
    }, 300);
  }

  /** Changes some of what is chosen; null or an empty text takes it out. */
  function set(changes) {
    const asked = query();
    for (const [key, text] of Object.entries(changes)) if (text) asked.set(key, text); else asked.delete(key);
    const text = asked.toString().replaceAll("%2C", ",");
    write(text ? `${path()}?${text}` : path());
  }

  window.addEventListener("hashchange", () => { coming = null; });
  return Object.freeze({ query, write, set });
})();
