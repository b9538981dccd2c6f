// Figures in words, as the tables of this page have them.

function three(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return size >= 0.1 ? value.toFixed(3) : String(+value.toPrecision(3));
}
const percent = (share) => `${three(100 * share)} %`;
const seconds = (value) => (value === null ? "–" : Math.abs(value) < 1 ? `${three(1000 * value)} ms` : `${three(value)} s`);
const bytes = (value) => (value >= 999.5e6 ? `${three(value / 1e9)} GB` : `${three(value / 1e6)} MB`);
const whole = (value) => Math.round(value).toLocaleString("en");

const weights = {
  samples: (value) => `${whole(value)} samples`,
  goroutines: (value) => `${whole(value)} goroutines`,
  bytes,
  "cpu-seconds": (value) => `${seconds(value)} CPU`,
  share: percent,
};
