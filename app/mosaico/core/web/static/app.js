// What a browser adds to pages, which are complete without it. Each module does its part when it is loaded.
import "./preferences.js";
import "./numbers.js";
import "./copy.js";
import "./forms.js";
import "./fragments.js";
import "./live.js";
import "./lists.js";
import "./charts.js";
import "./keyboard.js";
