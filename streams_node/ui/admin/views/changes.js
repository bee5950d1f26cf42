// Grows when this page has created or deleted a stream: lists are read anew then.
import { signal } from "../lib/html.js";

export const changes = signal(0);
