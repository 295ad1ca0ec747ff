// What the scripted model does in every application, and what it must see of each result.

const CHART = `import os
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig("chart.png")
with open("note.txt", "w") as note:
    note.write("kept")
print("hello", os.environ["NAME"])`;

// The server is started anew before this call, in the middle of the conversation.
export const RESTARTED_BEFORE = 2;

export const script = (conversationId) => [
  { expect: "answer 42", arguments: { language: "python", code: 'print("answer", 6 * 7)' } },
  {
    expect: "hello world",
    arguments: {
      language: "python", code: CHART, conversationId, environment: { NAME: "world" }, timeoutSeconds: 20,
      network: false, stateful: true, wait: true, restart: true,
    },
  },
  {
    expect: "still kept",
    arguments: { language: "python", code: 'print("still", open("note.txt").read())', conversationId },
  },
];
