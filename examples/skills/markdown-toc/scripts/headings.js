exports.anchor = (title) => title.toLowerCase().replace(/[^\w\s-]/g, '').trim().replace(/\s+/g, '-');

exports.headings = (lines) => {
  let code = false;
  const found = [];
  lines.forEach((text, line) => {
    if (text.startsWith('```')) code = !code;
    const match = !code && /^(#{1,6}) (.*)$/.exec(text);
    if (match) found.push({ line, level: match[1].length, title: match[2] });
  });
  return found;
};
