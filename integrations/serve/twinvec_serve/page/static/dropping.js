// Files that a person drops on the page or chooses, also whole folders.

/** Call `use` with a list of [path, File] when files are dropped on `area` or chosen in one of the `inputs`. */
export function onFiles(area, inputs, use) {
  for (const input of inputs) {
    input.addEventListener("change", () => {
      const files = [...input.files].map((file) => [file.webkitRelativePath || file.name, file]);
      input.value = "";
      if (files.length) use(files);
    });
  }
  for (const name of ["dragover", "drop"]) {
    addEventListener(name, (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); // else the browser would show the file instead of the page
    });
  }
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    area.addEventListener(name, (event) => {
      event.preventDefault();
      area.classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  area.addEventListener("drop", async (event) => {
    if (event.dataTransfer.types.includes("Files")) use(await filesOf(event.dataTransfer));
  });
}

async function filesOf(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...transfer.files].map((file) => [file.name, file]); // read before the first await, after which they are gone
  if (!entries.some((entry) => entry?.isDirectory)) return files;
  const found = await Promise.all(entries.filter(Boolean).map((entry) => within(entry)));
  return found.flat();
}

async function within(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [[entry.fullPath.replace(/^\//, ""), file]];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100 at a time
    if (!some.length) return found.flat();
    found.push(...(await Promise.all(some.map((each) => within(each)))));
  }
}
