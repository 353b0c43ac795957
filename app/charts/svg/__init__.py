"""The charts as SVG for pages: the same data as those of text; colours and fonts come from the page's style."""
