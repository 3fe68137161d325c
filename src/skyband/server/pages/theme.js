// Light, dark, or as the system says. Runs before the first paint, so that nothing flashes.
(() => {
  const root = document.documentElement;
  let chosen = null;
  try { chosen = localStorage.getItem("skyband-theme"); } catch { /* no storage: the system decides */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  const order = ["system", "light", "dark"];
  const signs = { system: "◐", light: "○", dark: "●" };
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      const now = root.dataset.theme || "system";
      button.textContent = signs[now];
      button.setAttribute("aria-label", `Theme: ${now}`);
      button.title = `Theme: ${now}`;
    };
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(root.dataset.theme || "system") + 1) % order.length];
      if (next === "system") delete root.dataset.theme;
      else root.dataset.theme = next;
      try { localStorage.setItem("skyband-theme", next); } catch { /* for this page only */ }
      show();
      document.dispatchEvent(new Event("theme"));
    });
    show();
  });
})();
