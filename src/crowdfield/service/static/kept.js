// Settings that this browser stores between visits. A browser may refuse storage, for example to an embedded map; then
// nothing is stored, and everything else works.

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
