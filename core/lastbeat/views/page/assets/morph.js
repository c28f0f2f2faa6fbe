"use strict";
/* Morph: makes a part of the page like a freshly built one, and keeps every node that stands in both.
 *
 * So focus, a selection, how far a box was scrolled and what was opened survive an update. Children with `data-key` are
 * known again by it, others by their place. Listeners of fresh nodes are lost: the caller listens further up.
 * Morph.put(node, ...children) takes what Draw.put takes.
 */
const Morph = (() => {
  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? (node.dataset.key ?? null) : null);

  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      // What people opened stays open.
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) === value) continue;
      // The Content-Security-Policy forbids style attributes; through CSSOM they are fine.
      if (name === "style") old.style.cssText = fresh.style.cssText;
      else old.setAttribute(name, value);
    }
  }

  function one(old, fresh) {
    if (old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
      old.replaceWith(fresh);
    } else if (old.nodeType === Node.ELEMENT_NODE) {
      if (old.isEqualNode(fresh)) return;
      attributes(old, fresh);
      children(old, [...fresh.childNodes]);
    } else if (old.nodeValue !== fresh.nodeValue) {
      old.nodeValue = fresh.nodeValue;
    }
  }

  /** Makes the children of `old` like the nodes `fresh`, some of which move in. */
  function children(old, fresh) {
    const wanted = new Set(fresh.map(keyOf).filter((key) => key !== null));
    const keyed = new Map();
    for (const node of [...old.childNodes]) {
      const key = keyOf(node);
      if (key === null) continue;
      if (wanted.has(key) && !keyed.has(key)) keyed.set(key, node);
      else node.remove();
    }
    let place = old.firstChild;
    for (const node of fresh) {
      const key = keyOf(node);
      const same = key === null ? (place !== null && keyOf(place) === null ? place : null) : (keyed.get(key) ?? null);
      keyed.delete(key);
      if (same === null) {
        old.insertBefore(node, place);
        continue;
      }
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      one(same, node);
    }
    while (place !== null) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  const put = (node, ...fresh) => children(node, [...Draw.put(document.createDocumentFragment(), fresh).childNodes]);

  return Object.freeze({ put });
})();
