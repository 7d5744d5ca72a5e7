// What this browser remembers between visits. A browser may refuse storage, as for a map inside another site's page; then
// nothing is remembered, and everything else works.

function allowed(act) {
  try {
    return act();
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
    return null;
  }
}

export const recall = (name) => allowed(() => localStorage.getItem(`crowdfield-${name}`));

export function keep(name, value) {
  allowed(() => (value === null ? localStorage.removeItem(`crowdfield-${name}`) : localStorage.setItem(`crowdfield-${name}`, value)));
}

// For this tab only.
export const recallHere = (name) => allowed(() => sessionStorage.getItem(`crowdfield-${name}`));

export function keepHere(name, value) {
  allowed(() => (value === null ? sessionStorage.removeItem(`crowdfield-${name}`) : sessionStorage.setItem(`crowdfield-${name}`, value)));
}
