// Drop files, or choose one: each is sent by itself, and the queue shows what becomes of it.
(() => {
  "use strict";

  const drop = () => document.getElementById("drop");

  let problem = "";
  let sending = null;

  // The page reads itself again and knows nothing of this: it is shown anew each time.
  const show = () => {
    const line = document.getElementById("sending");
    if (line) {
      line.hidden = sending === null;
      line.querySelector("span").textContent = sending ? `Uploading ${sending.name} …` : "";
      line.querySelector("progress").value = sending ? sending.ratio : 0;
    }
    const told = document.getElementById("told");
    if (!told) return;
    told.textContent = problem;
    told.hidden = problem === "";
    document.getElementById("hint").hidden = false;
  };

  const tell = (text) => {
    problem = text;
    show();
  };

  // Only XMLHttpRequest tells how much was sent.
  const post = (address, body, tellRatio) =>
    new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.upload.onprogress = (event) => tellRatio(event.loaded / event.total);
      request.onload = () => resolve(request);
      request.onerror = reject;
      request.open("POST", address);
      request.send(body);
    });

  const send = async (file) => {
    const { api, limit, tooLarge } = drop().dataset;
    if (file.size > Number(limit)) return `${file.name}: ${tooLarge}`;
    const body = new FormData();
    body.append("mapping", document.getElementById("mapping").value);
    body.append("file", file, file.name);
    const tellRatio = (ratio) => {
      sending = { name: file.name, ratio };
      show();
    };
    tellRatio(0);
    try {
      const answer = await post(api, body, tellRatio);
      return answer.status < 300 ? "" : `${file.name}: ${JSON.parse(answer.responseText).message}`;
    } catch {
      return `${file.name}: The upload was interrupted. Try it again.`;
    } finally {
      sending = null;
      show();
    }
  };

  const sendAll = async (files) => {
    tell("");
    const problems = [];
    for (const file of files) {
      const found = await send(file);
      if (found) problems.push(found);
      window.htmx.trigger("#content", "refresh");
    }
    tell(problems.slice(0, 3).join(" "));
  };

  const over = (event, isOver) => {
    if (!event.dataTransfer || ![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    drop()?.classList.toggle("is-over", isOver);
  };

  document.addEventListener("dragover", (event) => over(event, true));
  document.addEventListener("dragleave", (event) => over(event, false));
  document.addEventListener("drop", (event) => {
    over(event, false);
    const files = event.dataTransfer ? [...event.dataTransfer.files] : [];
    if (files.length && drop()) sendAll(files);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "drop") return;
    event.preventDefault();
    const input = document.getElementById("file");
    const files = [...input.files];
    input.value = "";
    sendAll(files);
  });
  document.addEventListener("DOMContentLoaded", show);
  document.addEventListener("htmx:afterSwap", show);
})();
