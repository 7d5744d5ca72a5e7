// Light or dark, decided before anything is drawn: what was chosen in this browser, else what the device prefers.

(() => {
  const device = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("crowdfield-theme");
    } catch (error) {
      if (error.name !== "SecurityError") throw error;
      return null; // a browser without storage
    }
  };
  const apply = () => {
    const theme = chosen();
    document.documentElement.dataset.theme = theme === "light" || theme === "dark" ? theme : device.matches ? "dark" : "light";
    dispatchEvent(new Event("theme-applied"));
  };
  device.addEventListener("change", apply);
  addEventListener("theme-chosen", apply);
  apply();
})();
