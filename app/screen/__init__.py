"""The Textual application: tabs, navigation, dialogs, and how runs are opened."""
