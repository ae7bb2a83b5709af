/** plotly.js, once a figure is to be drawn: it is larger than the rest of the page. */
export const loadPlotly = () => import("plotly.js-cartesian-dist-min").then((module) => module.default);
