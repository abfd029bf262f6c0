"""The terminal around the chat: driver, clipboard, images, external editor."""
